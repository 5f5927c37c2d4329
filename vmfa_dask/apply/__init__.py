"""What a fitted model is for: scores, labels, bounds.

May import: values, kernels, em, run, store.
"""
