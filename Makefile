# Both README commands do all their own set-up; a second run finds it done.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AXE := 4.14.1
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint bench format clean

demo: $(VENV)/.outgrow
	@$(BIN)/outgrow solve examples/sudoku-16.txt

test: $(VENV)/.test lint
	$(BIN)/python -m pytest -q -n 2

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --warnings
	$(BIN)/python -m pytest -q tests/test_road.py

bench: $(VENV)/.test
	$(BIN)/python benchmarks/generators.py
	$(BIN)/python benchmarks/cost.py

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .hypothesis

$(VENV)/.outgrow: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Outgrow needs Python 3.11 or newer; name one with 'make PYTHON=python3.12'" >&2; exit 1; }
	@echo "Setting up $(VENV) (a minute or two, once)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.outgrow
	@echo "Installing the test tools (once)"
	@$(PIP) --editable '.[test]'
	@npm install --silent --no-save --no-audit --no-fund --prefix $(VENV) axe-core@$(AXE) >/dev/null 2>&1 || \
		echo "npm could not bring axe-core $(AXE); the page's tests of accessibility will be skipped" >&2
	@touch $@
