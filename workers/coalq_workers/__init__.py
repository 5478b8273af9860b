"""What a worker machine adds to coalq: the Celery app, the asyncio loop and the model backends."""

from coalq_workers.app import app

__all__ = ["app"]
