"""What the estimator takes from scikit-learn, an extra of the package: without it, the error says what to install.

May import: sklearn.
"""

from __future__ import annotations

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_array, check_consistent_length, check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "MixtureOfFactorAnalyzers needs scikit-learn 1.6 or newer, the extra 'sklearn': "
        "pip install 'vmfa-dask[sklearn]'"
    ) from error

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ConvergenceWarning",
    "DensityMixin",
    "TransformerMixin",
    "check_array",
    "check_consistent_length",
    "check_is_fitted",
    "check_random_state",
    "validate_data",
]
