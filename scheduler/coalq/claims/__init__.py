"""Claims in Redis or Valkey: who may generate a coalition key now, across processes and machines."""

from coalq.claims.connection import check_redis, open_redis
from coalq.claims.redis_claims import KEYS_PER_CALL, RedisClaims
from coalq.claims.shared_claims import SharedClaims

__all__ = ["KEYS_PER_CALL", "RedisClaims", "SharedClaims", "check_redis", "open_redis"]
