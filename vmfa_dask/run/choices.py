"""Values that settings may have. May import: the standard library."""

INITIALIZERS = ("pilot", "afkmc2", "uniform", "k-means++", "k-means+fa", "noise")
# Those whose seeds are rows of the data.
SEED_ROWS = ("afkmc2", "uniform", "k-means++")
COVARIANCES = ("mfa", "diagonal", "isotropic")
NOISES = ("component", "shared")
SEARCHES = ("guided", "exhaustive")
SIMILARITIES = ("kl", "joint")
EMPTY = ("drop", "split")
PRECISIONS = ("float32", "float64")
CHOICES = {
    "covariance_type": COVARIANCES,
    "noise": NOISES,
    "learn_weights": (True, False),
    "standardize": (True, False),
    "screening": (True, False),
    "search": SEARCHES,
    "similarity": SIMILARITIES,
    "empty_components": EMPTY,
    "init_params": INITIALIZERS,
    "locality": (True, False),
    "precision": PRECISIONS,
}
# Smallest values of whole numbers.
LOWEST = {
    "n_components": 1,
    "n_factors": 0,
    "truncation": 1,
    "search_every": 1,
    "random_candidates": 0,
    "max_iter": 0,
    "max_warmup_iter": 0,
    "chain_length": 1,
    "n_init": 1,
    "random_state": 0,
}
