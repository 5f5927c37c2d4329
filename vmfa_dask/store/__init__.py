"""Zarr and files: rows in, models and runs out and in. May import: values, runtime, Zarr."""
