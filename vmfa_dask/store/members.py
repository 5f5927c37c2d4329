"""Which array of a group the caller means. May import: zarr."""

from __future__ import annotations

import warnings
from typing import Any

import zarr


def chosen_member(label: str, group: zarr.Group, name: str | None) -> zarr.Array[Any]:
    """The array of a group that a path chooses; without a path, its only array.

    Parameters
    ----------
    label : str
        What messages call the group.
    group : zarr.Group
        Group with arrays at any depth.
    name : str or None
        Path inside the group, such as ``images/train``; may lead to a group that holds a single array.

    Returns
    -------
    zarr.Array
        The array.

    Raises
    ------
    ValueError
        If this does not choose exactly one array; the message lists all arrays with their shapes.
    """
    node = _node(group, name)
    if isinstance(node, zarr.Array):
        return node
    if node is not None:
        candidates = arrays_of(node)
        if len(candidates) == 1:
            return next(iter(candidates.values()))
    arrays = arrays_of(group)
    names = ", ".join(repr(path) for path in arrays) or "none"
    shapes = f"; their shapes are {', '.join(str(array.shape) for array in arrays.values())}" if arrays else ""
    raise ValueError(
        f"{label} is a group with the arrays {names}; choose one by the argument array=..., found array={name!r}"
        f"{shapes}"
    )


def _node(group: zarr.Group, name: str | None) -> zarr.Array[Any] | zarr.Group | None:
    """The array or group at a path inside a group; without a path, the group itself."""
    path = (name or "").strip("/")
    if not path:
        return group
    try:
        node = group[path]
    except (KeyError, ValueError):  # nothing has this path, or it is not a path inside a group
        return None
    return node if isinstance(node, zarr.Array | zarr.Group) else None


def arrays_of(group: zarr.Group) -> dict[str, zarr.Array[Any]]:
    """All arrays of a group.

    Parameters
    ----------
    group : zarr.Group
        The group.

    Returns
    -------
    dict of str to zarr.Array
        At any depth, by their paths, sorted.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Object at .* is not recognized")  # other files beside the arrays are fine
        members = list(group.members(max_depth=None))
    return {path: node for path, node in sorted(members, key=lambda member: member[0]) if isinstance(node, zarr.Array)}
