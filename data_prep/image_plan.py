"""What is to become of which images. Imports `image_decoding`, `image_sources` and `splits`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from data_prep.image_decoding import Shaping
from data_prep.image_sources import Source
from data_prep.splits import TEST, TRAIN, HashSplit


@dataclass(frozen=True)
class Plan:
    """What becomes of which images.

    Attributes
    ----------
    sources : tuple of Source
        In the order of rows.
    shaping : Shaping
        How images become rows.
    sides : tuple of str
        Per source the array of its rows, `TRAIN` or `TEST`; empty where all sources make one array or `split` decides.
    split : HashSplit, optional
        Draws the side of each image.
    classes : tuple of str
        Folders inside of the sources that are labels.
    ignored : tuple of str
        Endings of names of what is no image, in lower case.
    shape : (int, int, int), optional
        Of every row; by default that of the first image.
    rows_per_chunk : int, optional
        By default about 2 MiB of rows.
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
        """Names of the arrays; "" when the store is one array."""
        return (TRAIN, TEST) if self.sides or self.split else ("",)

    def description(self) -> dict[str, Any]:
        """Return what tells this plan from others, as JSON values."""
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
        known: dict[str, Any] = json.loads(json.dumps(described))  # as it is read back, tuples being lists
        return known
