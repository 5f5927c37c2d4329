"""The keywords of a fit, with their types and defaults, for editors and type checkers.

`fit_distributed` and `fit_local` take them as ``**keywords: Unpack[...]``, so that each keyword is declared once. Their
signatures at run time name the keywords one by one. May import: values, run, apply, service.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, Literal, TypedDict, TypeVar, get_type_hints

from vmfa_dask.apply.model import MixtureModel
from vmfa_dask.run.settings import PAPER, Settings
from vmfa_dask.run.start import Start
from vmfa_dask.service.options import Options, Progress
from vmfa_dask.values import Mixture

Function = TypeVar("Function", bound=Callable[..., Any])


class SettingsKeywords(TypedDict, total=False):
    """The fields of `Settings`, which describes them, without `n_components`.

    None stands for a default that depends on the data or on other settings.
    """

    n_factors: int | None
    covariance_type: Literal["mfa", "diagonal", "isotropic"]
    noise: Literal["component", "shared"]
    learn_weights: bool
    truncation: int | None
    search: Literal["guided", "exhaustive"]
    similarity: Literal["kl", "joint"]
    empty_components: Literal["drop", "split"]
    neighborhood: int | tuple[int, ...]
    search_every: int
    screening: bool | None
    random_candidates: int
    tol: float | None
    warmup_tol: float | None
    max_iter: int
    max_warmup_iter: int
    standardize: bool | None
    reg_covar: float | None
    init_params: Literal["pilot", "afkmc2", "uniform", "k-means++", "k-means+fa", "noise"] | None
    n_init: int | None
    chain_length: int
    locality: bool | None
    random_state: int
    precision: Literal["float32", "float64"]


class LocalKeywords(SettingsKeywords, total=False):
    """Keywords of `fit_local`; `fit_distributed` describes those that are no settings."""

    preset: Literal["default", "paper"]
    array: str | None
    sample_dim: str | None
    missing_chunks: Literal["refuse", "fill"]
    start: Start | Mixture | MixtureModel | None
    n_groups: int | None
    threads: int | None
    cache_bytes: int | str | None
    run: str | os.PathLike[str] | None
    resume: Literal["auto", "never", "require"]
    checkpoint_share: float
    validation: Any
    validation_every: int | None
    patience: int | None
    progress: Progress | None
    verbose: int | None


class ClusterKeywords(LocalKeywords, total=False):
    """Keywords of `fit_distributed`, which describes them."""

    client: Any
    scratch: str | os.PathLike[str] | None
    worker_timeout: float | str


# Where a preset or the data decides about a setting, its default in a fit is None.
DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        **{field.name: None if field.name in PAPER else field.default for field in fields(Settings)},
        **{field.name: field.default for field in fields(Options)},
        "preset": "default",
        "array": None,
        "sample_dim": None,
        "missing_chunks": "refuse",
        "start": None,
        "client": None,
    }
)


def naming_keywords(keywords: type) -> Callable[[Function], Function]:
    """Let the signature of a function name its ``**keywords`` one by one, for `help`, notebooks and completion.

    Parameters
    ----------
    keywords : type
        The `TypedDict` that the function unpacks; the defaults of its keys are those of `DEFAULTS`.

    Returns
    -------
    callable
        Decorator that returns the function itself.
    """

    def name(function: Function) -> Function:
        signature = inspect.signature(function)
        named = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[key], annotation=annotation)
            for key, annotation in get_type_hints(keywords).items()
        ]
        explicit = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        function.__signature__ = signature.replace(parameters=[*explicit, *named])  # type: ignore[attr-defined]
        return function

    return name
