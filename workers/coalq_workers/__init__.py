"""What a worker machine adds to coalq: the Celery app, the asyncio loop and the model backends."""
