# Two commands matter: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2

.PHONY: demo test lint types tests site docs notebooks reality-check format clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	$(BIN)/levelfield demo

test: lint types tests

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

tests: $(VENV)/.installed-dev
	@test -n "$$LEVELFIELD_CHROMIUM" || command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo "no chromium: the pages are not tested in a browser; apt-get install chromium, or set LEVELFIELD_CHROMIUM"
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal --cov --cov-report=term:skip-covered

site: $(VENV)/.installed
	$(BIN)/levelfield site results -o site

docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The site: build/site/index.html"

reality-check: $(VENV)/.installed
	$(BIN)/python tools/reality_check/page.py

notebooks: $(VENV)/.installed-dev
	$(BIN)/python tools/docs/notebooks.py

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
