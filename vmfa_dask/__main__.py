"""``python -m vmfa_dask``: the command line `vmfa-dask` where its script is not on the path."""

import sys

from vmfa_dask.command import main

if __name__ == "__main__":
    sys.exit(main())
