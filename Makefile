# On a fresh machine: `make quickstart` and `make test`. Each target makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help quickstart test test-slow lint format clean
help:
	@echo "make quickstart   train a small Transformer and watch it answer (about a minute on two cores)"
	@echo "make test         the test suite"
	@echo "make test-slow    the long tests only"
	@echo "make lint         ruff: rules and formatting"
	@echo "make format       let ruff rewrite the code"
	@echo "make clean        remove .venv and everything that tools left behind"

$(INSTALLED): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; $(PYTHON) is older. Use: make PYTHON=python3.11 …" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,lint]'
	@touch $@

quickstart: $(INSTALLED)
	TF_CPP_MIN_LOG_LEVEL=3 $(BIN)/python training/quickstart.py

test: $(INSTALLED)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-slow: $(INSTALLED)
	$(BIN)/python -m pytest -m slow

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) *.egg-info build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
