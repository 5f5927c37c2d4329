"""Turns data as it travels (folders, archives) into Zarr stores of rows. Imports no other room."""
