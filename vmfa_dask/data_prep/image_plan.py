"""Which images become which rows. Imports `image_decoding`, `image_sources` and `splits`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from vmfa_dask.data_prep.image_decoding import Shaping
from vmfa_dask.data_prep.image_sources import Source
from vmfa_dask.data_prep.splits import TEST, TRAIN, HashSplit


@dataclass(frozen=True)
class Plan:
    """Which images become which rows of which array.

    Parameters
    ----------
    sources : tuple of Source
        In the order of rows.
    shaping : Shaping
        How images become rows.
    sides : tuple of str
        Per source the array of its rows, `TRAIN` or `TEST`; empty if there is one array or `split` decides.
    split : HashSplit, optional
        Draws the side of each image.
    classes : tuple of str
        Names of folders inside the sources; the index of an image's folder is its label.
    ignored : tuple of str
        Endings, in lower case, of names that are not images.
    shape : (int, int, int), optional
        Height, width and channels of every row; by default those of the first image.
    rows_per_chunk : int, optional
        Rows per Zarr chunk; by default about 2 MiB of them.
    """

    sources: tuple[Source, ...]
    shaping: Shaping
    sides: tuple[str, ...] = ()
    split: HashSplit | None = None
    classes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    shape: tuple[int, ...] | None = None
    rows_per_chunk: int | None = None

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays; "" if the store is one array."""
        return (TRAIN, TEST) if self.sides or self.split else ("",)

    def description(self) -> dict[str, Any]:
        """Describe the plan, for comparison with that of an earlier call.

        Returns
        -------
        dict
            JSON values, with the fingerprints of the sources.
        """
        described = {
            "sources": [source.fingerprint() for source in self.sources],
            "shaping": asdict(self.shaping),
            "sides": self.sides,
            "split": None if self.split is None else asdict(self.split),
            "classes": self.classes,
            "ignored": self.ignored,
            "shape": self.shape,
            "rows_per_chunk": self.rows_per_chunk,
        }
        values: dict[str, Any] = json.loads(json.dumps(described))  # as they are read back, with lists for tuples
        return values
