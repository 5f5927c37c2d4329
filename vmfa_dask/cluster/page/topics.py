"""Topics of Dask under which drivers announce their runs."""

# Records of passes, one event each.
TOPIC = "vmfa-dask"
# What else the page shows: how a run began and ended, passes before it was resumed, pictures of components.
PAGE_TOPIC = "vmfa-dask-page"
# What drivers call on the scheduler with an event of that kind.
HANDLER = "vmfa_dask_page"
