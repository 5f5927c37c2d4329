"""Addresses of what a run stores: which part of which version of which kind. May import: the standard library.

Everything is written once under its address and never changed, so a task that runs twice writes the same.
"""

from __future__ import annotations

from dataclasses import dataclass

PARAMETERS, GRAPH, POSTERIOR, START = "parameters", "graph", "posterior", "start"
# Distances to the nearest seed, while k-means++ draws the next one.
NEAREST = "nearest"
# Sums over the rows of each group, on their way to the updates of one pass.
MOMENTS = "moments"

_SHARED_NOISE, _SPLITS, _SURVEY, _SEEDS = "shared-noise", "splits", "survey", "seeds"


@dataclass(frozen=True)
class Address:
    """Address of some named arrays.

    Parameters
    ----------
    kind : str
        What is stored, such as `PARAMETERS`; within a stage of a run, with the name of the stage in front.
    version : int
        Number of the version.
    part : str
        The part of the version: a component block, a group, or what all share.
    """

    kind: str
    version: int
    part: str

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


def version_folder(kind: str, version: int) -> str:
    """Path of a version, relative to the storage.

    Parameters
    ----------
    kind : str
        See `Address`.
    version : int
        Its number.

    Returns
    -------
    str
    """
    return f"{kind}/{version:06d}"


def _components(block: int) -> str:
    return f"components-{block:05d}"


def _group(group: int) -> str:
    return f"group-{group:05d}"


def parameters(version: int, block: int) -> Address:
    """Address of the parameters of one component block.

    Parameters
    ----------
    version, block : int
        Number of the version, and of the component block.

    Returns
    -------
    Address
    """
    return Address(PARAMETERS, version, _components(block))


def shared_noise(version: int) -> Address:
    """Address of the noise variances that all components share.

    Parameters
    ----------
    version : int
        Number of the version of the parameters.

    Returns
    -------
    Address
    """
    return Address(PARAMETERS, version, _SHARED_NOISE)


def splits(kind: str, version: int) -> Address:
    """Address of the components that were split on the way to a version of the parameters or of the graph.

    Parameters
    ----------
    kind : {PARAMETERS, GRAPH}
        Which of the two.
    version : int
        Its number.

    Returns
    -------
    Address
    """
    return Address(kind, version, _SPLITS)


def graph(version: int, block: int) -> Address:
    """Address of the neighbours of one component block.

    Parameters
    ----------
    version, block : int
        Number of the version, and of the component block.

    Returns
    -------
    Address
    """
    return Address(GRAPH, version, _components(block))


def posterior(iteration: int, group: int) -> Address:
    """Address of the kept components of the rows of one group.

    Parameters
    ----------
    iteration, group : int
        Number of the pass that reads them, and of the group.

    Returns
    -------
    Address
    """
    return Address(POSTERIOR, iteration, _group(group))


def survey() -> Address:
    """Address of what the survey of the rows has found: offset, variances, units and extremes of the features."""
    return Address(START, 0, _SURVEY)


def seeds() -> Address:
    """Address of the row numbers of the seeds, and of the offset of a start that was given."""
    return Address(START, 0, _SEEDS)


def nearest(step: int, group: int) -> Address:
    """Address of the squared distances of the rows of one group to their nearest seed.

    Parameters
    ----------
    step, group : int
        Number of seeds so far, and of the group.

    Returns
    -------
    Address
    """
    return Address(NEAREST, step, _group(group))


def moments(iteration: int, group: int, block: int) -> Address:
    """Address of the moments that one group contributes to one component block in a pass.

    Parameters
    ----------
    iteration, group, block : int
        Number of the pass, of the group and of the component block.

    Returns
    -------
    Address
    """
    return Address(MOMENTS, iteration, f"{_group(group)}-{_components(block)}")


def numbered(address: Address, n_blocks: int) -> Address:
    """The address in the folder of a run, where all parts of a version are numbered.

    Parameters
    ----------
    address : Address
        An address of parameters, graph, posterior or start.
    n_blocks : int
        Component blocks of the run, after which its shared noise and its splits are numbered.

    Returns
    -------
    Address
    """
    fixed = {_SURVEY: 0, _SEEDS: 1, _SHARED_NOISE: n_blocks, _SPLITS: n_blocks + 1}
    number = fixed[address.part] if address.part in fixed else int(address.part.rpartition("-")[2])
    return Address(address.kind, address.version, f"{number:05d}")
