"""Clusters for fits: on one machine, in containers, on Kubernetes and under Slurm. Used from a checkout."""
