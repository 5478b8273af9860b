"""Settings of the property tests: no deadline per example, because a busy machine is not a failure."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("coalq", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("coalq")
