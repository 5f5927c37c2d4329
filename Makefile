# Every target installs first when needed: into .venv, again whenever pyproject.toml has changed.
PYTHON := .venv/bin/python
PIP := $(PYTHON) -m pip --quiet --disable-pip-version-check
STAMP := .venv/.installed

.PHONY: install demo test lint bench chaos clean

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
	$(PYTHON) -m pytest

lint: install
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy vmfa_dask

bench: install
	$(PYTHON) -m benchmarks

chaos: install
	$(PYTHON) -m tests.chaos --report docs/results/chaos.md

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
