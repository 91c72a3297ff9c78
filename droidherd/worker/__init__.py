"""What worker_main.py puts together."""
