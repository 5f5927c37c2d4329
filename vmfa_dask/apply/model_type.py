"""The type of a model: constraints on its parameters, and how many of them are free. May import: run."""

from __future__ import annotations

from dataclasses import dataclass

from vmfa_dask.run.choices import COVARIANCES, NOISES


@dataclass(frozen=True)
class ModelType:
    """Constraints on the parameters of a mixture (see `Settings`).

    Parameters
    ----------
    covariance_type : {"mfa", "diagonal", "isotropic"}
        Form of the covariances.
    noise : {"component", "shared"}
        Whether each component has noise variances of its own.
    learn_weights : bool
        Whether the mixing proportions are free.

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
        """Count the free parameters of a mixture of this type: weights, means and covariances.

        Loadings count without the rotations of the factors, which change no density: D·H − H(H−1)/2 per component. No
        covariance counts for more than the D(D+1)/2 numbers that it has.

        Parameters
        ----------
        n_components, n_features, n_factors : int
            C, D and H.

        Returns
        -------
        int
            For `MixtureModel.aic` and `MixtureModel.bic`.
        """
        c, d, h = n_components, n_features, min(n_factors, n_features)
        noise = (1 if self.covariance_type == "isotropic" else d) * (1 if self.noise == "shared" else c)
        loadings = c * (d * h - h * (h - 1) // 2)
        return (c - 1 if self.learn_weights else 0) + c * d + min(loadings + noise, c * d * (d + 1) // 2)
