"""A run: settings, plan, tasks, passes and state; start with `algorithm`.

May import: all rooms but store, cluster, apply and service.
"""
