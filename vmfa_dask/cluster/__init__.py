"""Everything that imports Dask: executor, workers, drivers, checks of a cluster.

May import: run, store, Dask.
"""
