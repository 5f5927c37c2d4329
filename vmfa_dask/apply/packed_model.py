"""The packed form of a model, made once. May import: values, apply."""

from __future__ import annotations

import os
import threading

from vmfa_dask.apply.inference import Evaluator
from vmfa_dask.apply.parameters import ModelParameters

# One thread at a time packs a model: a second packed form would take as much memory again.
_packing = threading.Lock()


class PackedModel(ModelParameters):
    """Parameters of a model with their packed form, which is about as large as they are.

    The first call that evaluates rows makes it. It is kept with the model, not pickled, and not compared.
    """

    @property
    def _evaluator(self) -> Evaluator:
        """Made once for each process: threads do not survive a fork."""
        with _packing:
            kept: dict[int, Evaluator] = self.__dict__.setdefault("_evaluators", {})
            if os.getpid() not in kept:
                kept.clear()
                kept[os.getpid()] = Evaluator(self.mixture)
            return kept[os.getpid()]
