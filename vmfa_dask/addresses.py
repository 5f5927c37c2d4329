"""Addresses of what a run stores. May import: the standard library.

Everything is written once under its address and never changed, so a task that runs twice writes the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

PARAMETERS, GRAPH, POSTERIOR, START = "parameters", "graph", "posterior", "start"
NEAREST, MOMENTS = "nearest", "moments"
PACKED, PACKED_ARRAYS = "packed", "packed-arrays"


def version_folder(kind: str, version: int) -> str:
    """Path of a version, relative to the storage.

    Parameters
    ----------
    kind : str
        What is stored, such as `PARAMETERS`.
    version : int
        Its number.

    Returns
    -------
    str
    """
    return f"{kind}/{version:06d}"


class Address:
    """Address of some named arrays: a part of a version of a kind.

    Attributes
    ----------
    kind : str
        What is stored, such as `PARAMETERS`.
    version : int
        Number of the version.
    """

    kind: ClassVar[str]
    version: int

    @property
    def part(self) -> str:
        """The part of the version: a component block, a group, or what all share."""
        raise NotImplementedError

    def number(self, n_blocks: int) -> int:
        """Number of the part in the folder of a run, which numbers them.

        Parameters
        ----------
        n_blocks : int
            Component blocks of the run, after which the parts are numbered that all blocks share.

        Returns
        -------
        int
        """
        raise NotImplementedError

    @property
    def folder(self) -> str:
        """Path of the version, relative to the storage."""
        return version_folder(self.kind, self.version)

    @property
    def name(self) -> str:
        """Path of the part, relative to the storage."""
        return f"{self.folder}/{self.part}"

    def __str__(self) -> str:
        return f"{self.kind} of version {self.version}, {self.part}"


class _OfComponents(Address):
    block: int

    @property
    def part(self) -> str:
        return f"components-{self.block:05d}"

    def number(self, n_blocks: int) -> int:
        return self.block


class _OfRows(Address):
    group: int

    @property
    def part(self) -> str:
        return f"group-{self.group:05d}"

    def number(self, n_blocks: int) -> int:
        return self.group


class _OfStart(Address):
    kind, version = START, 0
    position: ClassVar[int]

    def number(self, n_blocks: int) -> int:
        return self.position


@dataclass(frozen=True)
class Parameters(_OfComponents):
    """Parameters of one component block.

    Parameters
    ----------
    version, block : int
        Number of the version, and of the component block.
    """

    kind = PARAMETERS
    version: int
    block: int


@dataclass(frozen=True)
class SharedNoise(Address):
    """Noise variances that all components share.

    Parameters
    ----------
    version : int
        Version of the parameters.
    """

    kind = PARAMETERS
    part = "shared-noise"
    version: int

    def number(self, n_blocks: int) -> int:
        """After the component blocks; see `Address.number`."""
        return n_blocks


@dataclass(frozen=True)
class SplitParameters(Address):
    """Components that were split on the way to a version of the parameters.

    Parameters
    ----------
    version : int
        Version of the parameters.
    """

    kind = PARAMETERS
    part = "splits"
    version: int

    def number(self, n_blocks: int) -> int:
        """After the component blocks and the shared noise; see `Address.number`."""
        return n_blocks + 1


@dataclass(frozen=True)
class Graph(_OfComponents):
    """Neighbours of one component block.

    Parameters
    ----------
    version, block : int
        Number of the version, and of the component block.
    """

    kind = GRAPH
    version: int
    block: int


@dataclass(frozen=True)
class SplitGraph(SplitParameters):
    """Components that were split on the way to a version of the graph.

    Parameters
    ----------
    version : int
        Version of the graph.
    """

    kind = GRAPH


@dataclass(frozen=True)
class Posterior(_OfRows):
    """Kept components of the rows of one group.

    Parameters
    ----------
    version, group : int
        Number of the pass that reads them, and of the group.
    """

    kind = POSTERIOR
    version: int
    group: int


@dataclass(frozen=True)
class RowSurvey(_OfStart):
    """Offset, variances, units and extremes of the features, from the survey of the rows."""

    part, position = "survey", 0


@dataclass(frozen=True)
class SeedRows(_OfStart):
    """Row numbers of the seeds, and the offset of a start that was given."""

    part, position = "seeds", 1


@dataclass(frozen=True)
class SeedCells(_OfStart):
    """Centres of the cells of the seeds, and the range of components that each has."""

    part, position = "cells", 2


@dataclass(frozen=True)
class NearestSeed(_OfRows):
    """Squared distances of the rows of one group to their nearest seed, while k-means++ draws the next one.

    Parameters
    ----------
    version, group : int
        Number of seeds so far, and of the group.
    """

    kind = NEAREST
    version: int
    group: int


@dataclass(frozen=True)
class GroupMoments(Address):
    """Moments that one group contributes to one component block, on their way to the M-step of a pass.

    Parameters
    ----------
    version, group, block : int
        Number of the pass, of the group and of the component block.
    """

    kind = MOMENTS
    version: int
    group: int
    block: int

    @property
    def part(self) -> str:
        """Group and component block."""
        return f"group-{self.group:05d}-components-{self.block:05d}"

    def number(self, n_blocks: int) -> int:
        """Groups one after the other; see `Address.number`."""
        return self.group * n_blocks + self.block


@dataclass(frozen=True)
class OfStage(Address):
    """An address within a stage of a run, whose kinds bear its name.

    Parameters
    ----------
    stage : str
        Name of the stage.
    address : Address
        The address as the stage knows it.
    """

    stage: str
    address: Address

    @property
    def kind(self) -> str:  # type: ignore[override]  # the other addresses have it in common
        """Kind of the address, with the name of the stage in front."""
        return f"{self.stage}-{self.address.kind}"

    @property
    def version(self) -> int:  # type: ignore[override]
        """That of the address."""
        return self.address.version

    @property
    def part(self) -> str:
        """That of the address."""
        return self.address.part

    def number(self, n_blocks: int) -> int:
        """That of the address; see `Address.number`."""
        return self.address.number(n_blocks)
