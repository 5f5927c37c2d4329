"""Small problems, compared with scikit-learn: ``python -m benchmarks.small.NAME``."""
