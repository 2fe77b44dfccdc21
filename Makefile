# On a fresh machine: `make quickstart` and `make test`. Each target makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Debian calls it chromium, others chromium-browser. The tests open TensorBoard in it.
CHROMIUM := command -v chromium >/dev/null || command -v chromium-browser >/dev/null

.PHONY: help quickstart compare-dateparser bench browser test test-slow lint format clean
help:
	@echo "make quickstart   train a Transformer that reads dates in 183 languages, export it and verify it"
	@echo "make compare-dateparser   that model and the library dateparser on the same dates"
	@echo "make bench        the speed of training and decoding; PEERS=DIR compares with others"
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
	$(BIN)/keras-transformer train quickstart
	$(BIN)/keras-transformer verify saved_models/dates

compare-dateparser: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[compare]'
	$(BIN)/python training/compare_dateparser.py saved_models/dates

bench: $(INSTALLED)
	$(BIN)/keras-transformer bench $(if $(PEERS),--peers '$(PEERS)' --rounds 3)

browser:
	@$(CHROMIUM) || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || \
		{ echo "The tests need the browser chromium: apt-get install chromium" >&2; exit 2; }

test: $(INSTALLED) browser
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-slow: $(INSTALLED) browser
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
