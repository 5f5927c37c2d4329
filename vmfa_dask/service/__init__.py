"""The front door: `fit_distributed`, `fit_local`, detached and kept runs. May import: all other rooms."""
