"""Problems of few components against scikit-learn: ``python -m benchmarks.small.NAME``."""
