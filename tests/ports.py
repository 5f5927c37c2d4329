"""Ports of loopback for servers that tests start as processes of their own."""

from __future__ import annotations

import random
import socket

# Below the ports that systems give to whoever asks for any: a server takes seconds to begin to listen, and meanwhile
# connections and workers of other tests would take one of those.
_RANGE = range(20_000, 32_000)
_TRIES = 100


def free_port() -> int:
    """A port that nobody listens on.

    Raises
    ------
    OSError
        When none was found.
    """
    for port in random.sample(_RANGE, _TRIES):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port in {_TRIES} tries")
