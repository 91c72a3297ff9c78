# The verbs. `make help` lists them. Windows: see CONTRIBUTING.md.

SHELL := /bin/sh
VENV  := .venv
BIN   := $(VENV)/bin
PY    := $(BIN)/python
STAMP := $(VENV)/.stamp
SEEDS := 0 1 2
SECONDS_EACH := 3600
PARALLEL := -n 4 --dist loadfile --no-loadscope-reorder

# Programs of the environment (adb, temporal) are found on PATH by the tests as a user would find them.
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Tests start hundreds of Python processes: what one compiled, the others read, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-more lint types replay record bench long fuzz lock sbom conformance screenshots

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-14s %s\n", $$1, $$2 }'

setup: $(STAMP) ## build .venv from requirements.lock, by hash (instant when nothing changed)

$(STAMP): pyproject.toml requirements.lock
	@set -e; \
	if [ ! -x $(PY) ]; then \
	  found=; \
	  for name in $(PYTHON) python3.11 python3.12 python3.13 python3.14 python3 python; do \
	    if "$$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$name; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'error: no Python 3.11 or newer with venv found (Debian: apt install python3 python3-venv).' >&2; \
	    echo '       Install one, or name it: make setup PYTHON=/path/to/python3.11' >&2; \
	    exit 1; \
	  fi; \
	  echo "building $(VENV) with $$($$found --version)"; \
	  "$$found" -m venv $(VENV); \
	fi; \
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock; \
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	touch $(STAMP)

demo: setup ## show the main job end to end (KEEP=1 leaves it running)
	@$(BIN)/droidherd host demo

up: setup ## start everything here with four virtual emulators
	@$(BIN)/droidherd up --virtual 4

test: setup ## the default suite, some 8 minutes on 2 cores
	@$(PY) -m compileall -q droidherd workflows activities api tests worker_main.py
	@$(PY) -m pytest $(PARALLEL) -m 'not more and not long and not conformance'

test-more: setup ## plays of real processes, crashes and chaos, at most 12 minutes
	@$(PY) -m pytest $(PARALLEL) -rs -m 'more and not long'

lint: setup ## ruff and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache

types: setup ## basedpyright, strict; warnings are errors
	@$(BIN)/basedpyright --warnings

replay: setup ## recorded histories against today's workflows: three hash seeds, then the SDK's sandbox
	@for seed in $(SEEDS); do PYTHONHASHSEED=$$seed $(PY) worker_main.py verify || exit 1; done
	@$(PY) worker_main.py verify --strict

record: setup ## play every path through the workflows and record its histories, some 3 minutes
	@$(PY) -m tests.replay.record

bench: setup ## benchmarks into bench/results/latest.json
	@$(PY) -m bench

long: setup ## the full sizes into long/results/latest.json
	@$(PY) -m long

fuzz: setup ## the parsers, an hour each, with atheris where it can be installed (SECONDS_EACH=60 for a try)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock || echo 'without atheris' >&2
	@$(PY) -m tests.fuzz --seconds $(SECONDS_EACH) --keep

lock: setup ## write requirements*.lock from constraints.txt: the hash of every file (asks the package index)
	@$(PY) .ci/lock.py

sbom: setup ## write sbom.json: what an installation consists of (CycloneDX)
	@$(PY) .ci/sbom.py

conformance: setup ## against programs that are not on PyPI; says what is missing
	@$(PY) -m pytest -m conformance -rs

screenshots: setup ## the pictures of the Temporal Web UI in docs/images (needs Chromium)
	@$(PY) docs/images/screenshots.py
