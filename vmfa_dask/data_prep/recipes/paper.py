"""The paper's table of data sets, and the comparison of actual files with it.

Imports the standard library only.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Expected:
    """A row of the table.

    Parameters
    ----------
    train, test : int
        Number of images per side.
    shape : (int, int, int)
        Height, width and channels of an image.
    """

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


def differences(name: str, n_images: Mapping[str, int]) -> list[str]:
    """List the sides whose number of images differs from the paper's.

    Parameters
    ----------
    name : str
        The data set, a key of `DATA_SETS`.
    n_images : mapping of str to int
        Number of images of ``train`` and ``test``.

    Returns
    -------
    list of str
        One complaint per side that differs.
    """
    expected = {"train": DATA_SETS[name].train, "test": DATA_SETS[name].test}
    return [
        f"{n_images.get(side, 0):,} {side} images, expected {n:,} as in the paper"
        for side, n in expected.items()
        if n_images.get(side, 0) != n
    ]


def require(name: str, complaints: Sequence[str], partial: bool) -> None:
    """Refuse a data set that differs from the paper's, or warn of it.

    Parameters
    ----------
    name : str
        The data set, a key of `DATA_SETS`.
    complaints : sequence of str
        What is missing or differs; empty if nothing does.
    partial : bool
        Warn only.

    Raises
    ------
    ValueError
        With all complaints, unless `partial`.
    """
    if not complaints:
        return
    text = f"{name}: {'; '.join(complaints)}"
    if not partial:
        raise ValueError(f"{text}. Choose partial to accept that")
    logger.warning("%s", text)
