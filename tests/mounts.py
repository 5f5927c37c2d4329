"""Folders of a process that no other process sees so: mounts in a namespace of its own, which takes no rights."""

from __future__ import annotations

import shutil
import subprocess

NAMESPACE = ("unshare", "--map-root-user", "--mount")
# sh -c MOUNT OPTIONS FOLDER COMMAND...
MOUNT = 'mount -t tmpfs -o "$0" tmpfs "$1" && shift && exec "$@"'


def mounts_are_possible() -> bool:
    """Whether this system lets a user make them."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, timeout=20, check=False).returncode == 0
