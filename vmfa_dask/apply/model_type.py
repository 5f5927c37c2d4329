"""The type of a model: what its parameters have in common, and how many of them are free. May import: em."""

from __future__ import annotations

from dataclasses import dataclass

from vmfa_dask.run.choices import COVARIANCES, NOISES


@dataclass(frozen=True)
class ModelType:
    """What the components of a mixture have in common, and what of them was learned (see `Settings`).

    Parameters
    ----------
    covariance_type : "mfa", "diagonal" or "isotropic"
    noise : "component" or "shared"
    learn_weights : whether the mixing proportions are free

    Raises
    ------
    ValueError
        Naming the argument, the value and what is allowed.
    """

    covariance_type: str = "mfa"
    noise: str = "component"
    learn_weights: bool = True

    def __post_init__(self) -> None:
        for name, allowed in (
            ("covariance_type", COVARIANCES),
            ("noise", NOISES),
            ("learn_weights", (True, False)),
        ):
            value = getattr(self, name)
            if value not in allowed or type(value) is not type(allowed[0]):
                raise ValueError(f"{name}={getattr(self, name)!r}: expected one of {allowed}")

    def __str__(self) -> str:
        noise = "shared by all components" if self.noise == "shared" else "of each component"
        return f"{self.covariance_type}, noise {noise}{'' if self.learn_weights else ', weights not learned'}"

    def n_parameters(self, n_components: int, n_features: int, n_factors: int) -> int:
        """Free parameters of a mixture of this type: weights, means and covariances.

        Loadings count without the rotations of the factors, which change no density: D·H − H(H−1)/2 per component. No
        covariance counts for more than the D(D+1)/2 numbers that it has.
        """
        c, d, h = n_components, n_features, min(n_factors, n_features)
        noise = (1 if self.covariance_type == "isotropic" else d) * (1 if self.noise == "shared" else c)
        loadings = c * (d * h - h * (h - 1) // 2)
        return (c - 1 if self.learn_weights else 0) + c * d + min(loadings + noise, c * d * (d + 1) // 2)
