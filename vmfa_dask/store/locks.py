"""Locks between processes. May import: filelock."""

from __future__ import annotations

import errno
import logging

from filelock import FileLock, Timeout

logger = logging.getLogger("vmfa_dask")

# What a file system answers when it does not support locks.
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}


def held_lock(path: str, seconds: float = 0.0) -> FileLock | None:
    """Acquire a lock for this process.

    Parameters
    ----------
    path : str
        File of the lock; created if needed. A link is not followed.
    seconds : float
        How long to wait for another process that holds the lock.

    Returns
    -------
    FileLock or None
        The lock, held. None where the disk does not support locks, which is logged.

    Raises
    ------
    filelock.Timeout
        If another process holds the lock for longer.
    OSError
        If the file cannot be created or opened.
    """
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=seconds)
    except Timeout:  # an OSError too, but no sign that locks are missing
        raise
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        logger.info("%s: this disk has no locks (%s); continuing without one", path, error)
        return None
    return lock
