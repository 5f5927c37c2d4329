# Every target installs first when needed: into .venv, again whenever pyproject.toml has changed.
PYTHON := .venv/bin/python
PIP := $(PYTHON) -m pip --quiet --disable-pip-version-check
STAMP := .venv/.installed

# Tests wait for clusters half of the time: three processes keep two cores busy.
PYTEST := -m pytest -n 3 --dist worksteal
SHORT := -m "not slow and not long"
# Rooms that need no cluster, without what trains in every way or kills processes.
QUICK := tests/kernels tests/em tests/apply tests/store tests/test_architecture.py \
	--ignore tests/em/test_pilot.py --ignore tests/em/test_family.py --ignore tests/store/test_atomic.py
LOWEST := .venv-lowest

.PHONY: install demo test slow long quick lowest lint docs bench chaos fuzz clean

install: $(STAMP)

$(STAMP): pyproject.toml
	@test -x .venv/bin/pip || for python in python3.11 python3; do \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
		$$python -m venv .venv; break; \
	done
	@test -x .venv/bin/pip || { echo "Python 3.11 or newer, with its venv module, is needed" >&2; exit 1; }
	$(PIP) install -e ".[dev]"
	@touch $@

demo: install
	$(PYTHON) notebooks/demo.py

test: install
	$(PYTHON) $(PYTEST) $(SHORT)

# What needs seconds for one case: processes of its own, series of kills, notebooks, the guide. CI runs both.
slow: install
	$(PYTHON) $(PYTEST) -m "slow and not long"

# Longer runs of what shorter tests cover: kills in series, more rows than memory, kernels from an empty cache.
long: install
	$(PYTHON) $(PYTEST) -m long

quick: install
	$(PYTHON) $(PYTEST) -q -m "not slow and not long" $(QUICK)

# The lowest versions that pyproject.toml allows, in an environment and with compiled code of their own.
lowest: install
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(PYTHON) -m uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct -e ".[dev]"
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/python $(PYTEST)

lint: install
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy vmfa_dask

# The site of docs/, in docs/_build/html. A warning, such as a link that leads nowhere, is an error.
docs: install
	$(PYTHON) -m sphinx --fail-on-warning --keep-going --quiet -E -d docs/_build/doctrees docs docs/_build/html

bench: install
	$(PYTHON) -m benchmarks

chaos: install
	$(PYTHON) -m tests.chaos --report docs/results/chaos.md

fuzz: install
	$(PYTHON) -m tests.fuzz --report docs/results/fuzz.md

clean:
	rm -rf .venv $(LOWEST) .mypy_cache .pytest_cache .ruff_cache build dist docs/_build *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
