"""Turns data as it travels (folders, archives) into Zarr stores of rows. Imports nothing of `vmfa_dask`."""
