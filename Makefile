# Every target sets up what it needs in .venv, from python3 (3.11+) alone.
PYTHON ?= python3
BIN := .venv/bin
COMMA := ,
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# One thread per test process: two processes already fill two cores.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help demo test fuzz torture lint types bench browser docs experiments experiments-human clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /: /'

demo: .venv/.base  ## a simulated crowd labels digits; see what is recovered
	@$(BIN)/crowdprism demo

test: .venv/.test lint types  ## lint, types and tests
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 --dist loadfile

FUZZ_SECONDS ?= 600
fuzz: .venv/.fuzz  ## search for files that break the readers: coverage-guided (FUZZ_SECONDS), then mutants of files and runs
	for target in tests/fuzz/atheris_*.py; do \
		mkdir -p .fuzz/$$(basename $$target .py) && \
		$(ONE_THREAD) $(BIN)/python $$target .fuzz/$$(basename $$target .py) \
			-max_total_time=$(FUZZ_SECONDS) -max_len=20000 -timeout=10 -rss_limit_mb=3000 -artifact_prefix=.fuzz/ || exit 1; \
	done
	$(ONE_THREAD) $(BIN)/python benchmarks/fuzz_files.py 100000
	$(ONE_THREAD) $(BIN)/python benchmarks/fuzz_files.py --tables 10000
	$(ONE_THREAD) $(BIN)/python benchmarks/fuzz_runs.py 10000

torture: .venv/.test  ## kill aggregate, train, report, reproduce and shard before every call on files and at random moments
	$(ONE_THREAD) $(BIN)/python -W ignore tests/torture/torture.py --moments 40

lint: .venv/.test  ## ruff, rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.test  ## mypy, strict
	$(BIN)/mypy

bench: .venv/.bench  ## side-by-side measurements with peers; results in benchmarks/results
	CROWDPRISM_PEER_PYTHON=.venv/peers/bin/python $(BIN)/python benchmarks/run_all.py

browser:  ## Chromium for the browser tests, from Debian's packages; without it they are skipped
	command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium)

docs: .venv/.docs  ## the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

TABLES := T2 T1 T3 T4 T5 T6 T1-resnet18 confusions
experiments: .venv/.test  ## the long studies behind docs/results; published tables first, resumable (CROWDPRISM_DATA)
	for table in $(TABLES); do $(BIN)/crowdprism reproduce $$table --budget cpu --processes 2 -o docs/results \
		--rows benchmarks/results/experiments/rows.jsonl || exit; done
	$(BIN)/python benchmarks/published_cells.py
	$(BIN)/python benchmarks/run_all.py --studies

experiments-human: .venv/.test  ## every classifier on LabelMe and Music (CROWDPRISM_DATA), resumable; docs/results/human.md
	for study in human-last human-defaults human-clean; do \
		$(ONE_THREAD) $(BIN)/crowdprism reproduce $$study --budget cpu --processes 2 \
			--rows benchmarks/results/experiments/human.jsonl --output docs/results || exit 1; \
	done

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("crowdprism needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv

COMPILED := setup.py src/crowdprism/aggregators/_expectation.pyx
.venv/.base: .venv/bin/python pyproject.toml constraints.txt $(COMPILED)
	@echo "Setting up .venv (once, a minute or two) ..."
	$(PIP) -e '.[train]'
	@touch $@

# All in one call to pip: each call builds the project anew. Modules are compiled when tests import them: compiling all
# 15,000 would take a minute.
WITH_SPARK := $(if $(shell command -v java),$(COMMA)spark)
.venv/.test: .venv/bin/python pyproject.toml constraints.txt $(COMPILED)
	@echo "Setting up .venv (once, a few minutes) ..."
	$(PIP) --no-compile -e '.[test$(WITH_SPARK)]'
	@touch .venv/.base $@

.venv/.bench: .venv/.test
	$(PYTHON) -m venv .venv/peers
	.venv/peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	@touch $@

.venv/.fuzz: .venv/.test
	$(PIP) atheris
	@touch $@

.venv/.docs: .venv/.base
	$(PIP) -e '.[docs]'
	@touch $@

clean:  ## remove .venv and caches
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache .hypothesis
