"""Which array of a group is meant. May import: zarr."""

from __future__ import annotations

import warnings
from typing import Any

import zarr


def chosen_member(label: str, group: zarr.Group, name: str | None) -> zarr.Array[Any]:
    """The array of a group at any depth, by its path; without one the only array that there is.

    Parameters
    ----------
    label : what the group is called, for messages
    group : the group
    name : path inside the group, such as ``images/train``; may be a group that holds a single array

    Raises
    ------
    ValueError
        When that does not choose one array; the message lists all arrays, with their shapes.
    """
    node = _node(group, name)
    if isinstance(node, zarr.Array):
        return node
    if node is not None:
        inside = _arrays(node)
        if len(inside) == 1:
            return next(iter(inside.values()))
    arrays = _arrays(group)
    names = ", ".join(repr(path) for path in arrays) or "none"
    shapes = f"; their shapes are {', '.join(str(array.shape) for array in arrays.values())}" if arrays else ""
    raise ValueError(
        f"{label} is a group with the arrays {names}; choose one by the argument array=..., found array={name!r}"
        f"{shapes}"
    )


def _node(group: zarr.Group, name: str | None) -> zarr.Array[Any] | zarr.Group | None:
    """What lies in a group at a path; the group itself without one."""
    path = (name or "").strip("/")
    if not path:
        return group
    try:
        node = group[path]
    except (KeyError, ValueError):  # nothing is there, or it is no path inside a group
        return None
    return node if isinstance(node, zarr.Array | zarr.Group) else None


def _arrays(group: zarr.Group) -> dict[str, zarr.Array[Any]]:
    """All arrays of a group by their paths, in order."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Object at .* is not recognized")  # files beside the arrays do no harm
        members = list(group.members(max_depth=None))
    return {path: node for path, node in sorted(members, key=lambda member: member[0]) if isinstance(node, zarr.Array)}
