"""Locks between processes. May import: filelock."""

from __future__ import annotations

import errno
import logging

from filelock import FileLock, Timeout

logger = logging.getLogger("vmfa_dask")

# What systems say where a disk has no locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}


def held_lock(path: str, seconds: float = 0.0) -> FileLock | None:
    """A lock that this process holds from now on; None, and a word in the log, where the disk has no locks.

    Parameters
    ----------
    path : file of the lock, made when it does not exist; a link is not followed
    seconds : how long to wait for another process

    Raises
    ------
    filelock.Timeout
        When another process holds it for longer.
    OSError
        When the file cannot be made or opened.
    """
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:
        raise
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        logger.info("%s: this disk has no locks (%s); going on without", path, error)
        return None
    return lock
