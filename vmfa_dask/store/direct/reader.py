"""What direct readers have in common. May import: numpy, store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

from vmfa_dask.store.direct.chunk_files import ChunkFiles


class DirectReader(ABC):
    """Reads rows of an array from its chunk files, without Zarr.

    Parameters
    ----------
    files : ChunkFiles
        The files of the array.

    Attributes
    ----------
    reads_parts : bool
        Whether a range may begin and end inside a chunk; otherwise it begins at a chunk, and ends at one or at the
        last row.
    threads : int
        Threads that decode the chunks of one range; 1 at first.
    """

    reads_parts: ClassVar[bool]

    def __init__(self, files: ChunkFiles) -> None:
        self._files = files
        self.threads = 1

    @abstractmethod
    def read(self, start: int, stop: int, out: NDArray[Any]) -> int:
        """Read a range of rows; safe to call from several threads.

        Parameters
        ----------
        start, stop : int
            First row, and the one after the last; see `reads_parts`.
        out : (stop - start, D) array in C order, dtype of the array
            Filled with the rows, in the byte order of the array.

        Returns
        -------
        int
            Stored bytes that were read.

        Raises
        ------
        ChunkMissing
            Naming the chunk that is not stored, if that is refused.
        ChunkDamaged
            Naming the chunk whose bytes are not its rows, or the shard whose index is damaged.
        OSError
            If a file cannot be read.
        """
