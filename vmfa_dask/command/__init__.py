"""The command line ``vmfa-dask``, on top of all other rooms; none imports it.

Each command is a module that is imported when it is called, so that help and completion answer at once. The docstring
of a command is its help text, and its options describe its parameters.
"""

from vmfa_dask.command.entry import main

__all__ = ["main"]
