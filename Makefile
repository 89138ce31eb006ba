# Two commands are enough on a machine with Python 3.11 or newer and make:
#   make demo    sets everything up, then listens to speech and answers it
#   make test    sets everything up, then runs all the tests
#
# Set-up is kept in stamp files: it is done again only when what it depends on has changed.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
CLIENTS := .venv-clients
PIP_FLAGS := --disable-pip-version-check --quiet

PYPROJECTS := $(wildcard duplex_sdk/pyproject.toml duplex_server/pyproject.toml \
	plugins-local/pyproject.toml templates/pyproject.toml)
STAMP := $(VENV)/.installed
CLIENTS_STAMP := $(CLIENTS)/.installed
DOCS_STAMP := $(VENV)/.docs-installed

# The recogniser and the voice run on one thread each, and nothing may be fetched at run time.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1

.DEFAULT_GOAL := help
.PHONY: help install install-clients demo talk test test-common test-clients check format docs bench bench-smoke clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## everything for development in .venv

install-clients: $(CLIENTS_STAMP) ## the stock clients in .venv-clients

demo: $(STAMP) ## a spoken conversation with the local plugin, heard and checked
	$(PY) scripts/demo.py

talk: $(STAMP) ## speak into the microphone
	$(VENV)/bin/duplex talk

test: test-common test-clients ## all the tests

test-common: $(STAMP)
	$(PY) -m pytest $(PYTEST_FLAGS)

# The stock clients want other versions than we do, so they live in an environment of their own
# and meet the server only through its socket.
test-clients: $(STAMP) $(CLIENTS_STAMP) ## the unmodified OpenAI clients against our server
	DUPLEX_COMMAND="$(CURDIR)/$(VENV)/bin/duplex" \
	DUPLEX_SPEECH_DIR="$(CURDIR)/$(CLIENTS)/speech" \
	$(CLIENTS)/bin/python -m pytest -c tests/clients/pytest.ini tests/clients

check: $(STAMP) ## ruff, mypy, import rules, sizes
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy $(TYPED)
	$(VENV)/bin/lint-imports

TYPED := duplex_sdk/src/duplex_sdk duplex_server/src/duplex_server \
	plugins-local/src/duplex_plugin_local templates/src/duplex_templates benchmarks scripts

format: $(STAMP) ## lay the code out
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(DOCS_STAMP) ## the pages of docs/ as HTML in out/docs; a warning is an error
	$(PY) -m sphinx -W --keep-going -q -b html docs out/docs

bench: $(STAMP) ## all the measurements; table and JSON
	$(PY) -m benchmarks

bench-smoke: $(STAMP) ## the measurements for a few seconds, without limits on time
	$(PY) -m benchmarks --smoke

clean: ## forget the environments
	rm -rf $(VENV) $(CLIENTS)

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed; $(PYTHON) is older."; \
		  echo "hint: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): requirements-dev.txt $(PYPROJECTS) | $(PY)
	@echo "setting up $(VENV); the first time takes a minute or two"
	$(PY) -m pip install $(PIP_FLAGS) -r requirements-dev.txt
	@touch $@

$(CLIENTS)/bin/python: | $(PY)
	$(PYTHON) -m venv $(CLIENTS)

$(CLIENTS_STAMP): requirements-clients.txt scripts/speech_for_tests.py $(STAMP) | $(CLIENTS)/bin/python
	@echo "setting up $(CLIENTS) for the stock clients"
	$(CLIENTS)/bin/python -m pip install $(PIP_FLAGS) -r requirements-clients.txt
	$(PY) scripts/speech_for_tests.py $(CLIENTS)/speech
	@touch $@

$(DOCS_STAMP): requirements-docs.txt $(STAMP)
	$(PY) -m pip install $(PIP_FLAGS) -r requirements-docs.txt
	@touch $@
