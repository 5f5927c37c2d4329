"""What can be wrong with a stored chunk. Standard library only."""

from __future__ import annotations


class ChunkMissing(FileNotFoundError):
    """A chunk that belongs to the array is not in its store."""


class ChunkDamaged(OSError):
    """What is stored is no chunk, as after a copy that was cut short. Nothing else may try to read it."""
