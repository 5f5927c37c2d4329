"""The ways in which a run can begin. May import: what `run` may."""
