"""Savers that are killed at random moments: ``python -m tests.store.killed_savers ROUNDS SWAPS FOLDER``.

Each round forks a process that replaces a model, a marker and blocks over and over, kills it, and looks at what is
there. SWAPS is 0 for a disk that cannot exchange two names.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any

import numpy as np

from tests.samples import make_mixture
from vmfa_dask import addresses
from vmfa_dask.store import replacing
from vmfa_dask.store.folder_place import FolderPlace
from vmfa_dask.store.models import load_mixture, save_mixture
from vmfa_dask.store.version_store import ZarrStorage

MODELS = [make_mixture(c, 5, 1, dtype="float32") for c in (2, 3, 4)]
LONGEST = 0.25


def is_whole(path: str) -> bool:
    """Whether one of the models is there, all of its arrays."""
    found = load_mixture(path)[0]
    expected = MODELS[len(found.weights) - 2]
    names = ("weights", "means", "loadings", "noise_variances")
    return all(np.array_equal(getattr(found, name), getattr(expected, name)) for name in names)


def save_for_ever(folder: str, step: int) -> None:
    """Replace what is there; versions are named by the marker when they are written, and removed when it has moved."""
    place, storage = FolderPlace(folder), ZarrStorage(FolderPlace(f"{folder}/versions"))
    while True:
        step += 1
        save_mixture(MODELS[step % 3], f"{folder}/m", overwrite=True)
        storage.write(addresses.Parameters(step, 0), {"weights": MODELS[step % 3].weights})
        place.replace("state.json", json.dumps({"step": step, "text": "x" * 5000}))
        storage.keep_only([("parameters", step)])


def main(rounds: int, swaps: bool, folder: str) -> None:
    """Kill, look, and go on."""
    if not swaps:
        replacing.swap = lambda one, other: False
    moments, seen = random.Random(0), set()
    save_mixture(MODELS[0], f"{folder}/m")
    step = 0
    for _ in range(rounds):
        child = os.fork()
        if child == 0:
            try:
                save_for_ever(folder, step)
            finally:
                os._exit(1)
        time.sleep(moments.uniform(0.005, LONGEST))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        assert is_whole(f"{folder}/m")
        text = FolderPlace(folder).read("state.json")
        if text is not None:
            state: dict[str, Any] = json.loads(text)
            step = state["step"]
            stored = ZarrStorage(FolderPlace(f"{folder}/versions")).read(addresses.Parameters(step, 0))
            assert np.array_equal(stored["weights"], MODELS[step % 3].weights)
            seen.add(step)
    save_mixture(MODELS[0], f"{folder}/m", overwrite=True)
    left = [name for name in os.listdir(folder) if name not in ("m", "versions", "state.json")]
    assert all(name.startswith("state.json.") for name in left), left  # the next driver removes them
    print(len(seen))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "1", sys.argv[3])
