"""What the paper's table of data sets says of each, and how what was found is compared with it.

Imports the standard library only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expected:
    """A row of the table: number of samples per side, and (height, width, channels)."""

    train: int
    test: int
    shape: tuple[int, int, int]


DATA_SETS = {
    "cifar10": Expected(50_000, 10_000, (32, 32, 3)),
    "celeba": Expected(182_637, 19_962, (64, 64, 3)),
    "emnist": Expected(697_932, 116_323, (28, 28, 1)),
    "svhn": Expected(604_388, 26_032, (32, 32, 3)),
    "yfcc100m": Expected(94_197_533, 4_957_765, (32, 32, 3)),
}


def differences(name: str, found: Mapping[str, int]) -> list[str]:
    """Return one text per side whose number of samples is not the paper's."""
    expected = {"train": DATA_SETS[name].train, "test": DATA_SETS[name].test}
    return [
        f"{found.get(side, 0):,} {side} images, expected {n:,} as in the paper"
        for side, n in expected.items()
        if found.get(side, 0) != n
    ]


def require(name: str, complaints: Sequence[str], partial: bool) -> None:
    """Refuse what is not as in the paper, or warn of it.

    Parameters
    ----------
    name : str
        Of the data set.
    complaints : sequence of str
        What is missing or differs; empty when nothing is.
    partial : bool
        Go on with what is there.

    Raises
    ------
    ValueError
        With all complaints, unless `partial`.
    """
    if not complaints:
        return
    text = f"{name}: {'; '.join(complaints)}"
    if not partial:
        raise ValueError(f"{text}. Choose partial to go on with what is there")
    logger.warning("%s", text)
