"""The tasks of a run as plain functions of a context: what any executor runs, wherever it runs it.

A task reads its inputs from the storage or gets them as results of other tasks, writes under addresses of its own and
returns something small or additive. Running it twice changes nothing.
"""
