"""What can be wrong with a stored chunk. Standard library only."""

from __future__ import annotations


class ChunkMissing(FileNotFoundError):
    """A chunk of the array is not in its store."""


class ChunkDamaged(OSError):
    """The stored bytes are not a chunk of the array, as after an interrupted copy; no other reader may try them."""
