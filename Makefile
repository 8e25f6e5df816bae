# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

# Compiled modules are kept even where a container's settings forbid it: every process would compile the package again.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal

.PHONY: demo quick test lint types tests coverage speed attacks dist site docs notebooks reality-check format clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	$(BIN)/levelfield demo

# For every change: the tests that are not marked slow, browser or ray.
quick: lint
	$(PYTEST) -m "not slow and not browser and not ray"

test: lint types tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

tests: $(VENV)/.installed-dev
	@test -n "$$LEVELFIELD_CHROMIUM" || command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo "no chromium: the pages are not tested in a browser; apt-get install chromium, or set LEVELFIELD_CHROMIUM"
	$(PYTEST) --durations=50 --durations-file=build/durations.txt

coverage: $(VENV)/.installed-dev
	$(PYTEST) --cov --cov-report=term:skip-covered

# Ratios to other libraries in one table (docs/speed.md); `make speed SPEED=--quick` takes minutes.
speed: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.speed.table $(SPEED)

# The long attacks of docs/reliability.md, with a table at the end; `make attacks ATTACKS="--share 0.01"` takes minutes.
attacks: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.robustness.attacks $(ATTACKS)

# The archives of a release, checked as the package index checks them (docs/releases.md).
dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

site: $(VENV)/.installed
	$(BIN)/levelfield site results -o site

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The site: build/site/index.html"

reality-check: $(VENV)/.installed
	$(BIN)/python results/reality_check/page.py

notebooks: $(VENV)/.installed-dev
	$(BIN)/python -m tools.docs.notebooks

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "levelfield needs Python 3.11 or newer: make PYTHON=python3.11 demo")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis .coverage htmlcov
