"""A cluster on this machine: ``python -m deploy.local`` recommends a layout, and starts it with ``--start``."""
