# Everything a person types.  `make` alone lists it.
#
# Each target makes its own virtual environment in .venv the first time and after pyproject.toml changed.
#   make demo PYTHON=python3.12        chooses the interpreter the environment is made with
#   make demo PYTHON=python3 VENV=     makes none: the interpreter at hand, with the packages it has, on this checkout

VENV ?= .venv
# The first interpreter on the path that is new enough and not too new.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
    $$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
WORKERS ?= auto

ifeq ($(strip $(VENV)),)
RUN := PYTHONPATH="$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON)
READY :=
else
RUN := $(VENV)/bin/python
READY := $(VENV)/.installed
endif

.DEFAULT_GOAL := help
.PHONY: help demo test fuzz check bench-compile bench-h200 clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY)  ## compile a GEMM to a Hopper pipeline, show it, and check its numbers
	@$(RUN) examples/demo.py

test: $(READY)  ## the tests; those that need a GPU are skipped without one
	@if $(RUN) -c 'import xdist' 2>/dev/null; then set -- -n $(WORKERS) --dist worksteal; fi; $(RUN) -m pytest "$$@"

fuzz: $(READY)  ## random programs for SECONDS seconds (60); each fault is saved, shrunk, in tests/corpus
	@$(RUN) -m tests.fuzz.run --seconds $(or $(SECONDS),60) $(if $(SEED),--seed $(SEED)) $(if $(PROGRAMS),--programs $(PROGRAMS)) $(if $(JOBS),--jobs $(JOBS)) $(if $(RECORD),--record)

check: $(READY)  ## static checks (ruff)
	@$(RUN) -m ruff check .

bench-compile: $(READY)  ## time import, source to CUDA text, CUDA text to cubin (no GPU needed)
	@$(RUN) benchmarks/compile_time.py

bench-h200: $(READY)  ## GEMM, epilogues, attention: numbers and speed; needs an H200 and torch, so mostly with PYTHON= VENV=
	@$(RUN) benchmarks/gemm_h200.py
	@$(RUN) benchmarks/epilogues_h200.py
	@$(RUN) benchmarks/ping_pong_h200.py
	@$(RUN) benchmarks/attention_h200.py

clean:  ## remove the environment and caches
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist

ifneq ($(strip $(VENV)),)
$(VENV)/.installed: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11, 3.12 or 3.13 is needed and none is on the path; name one: make ... PYTHON=/path/to/python" >&2; exit 1; }
	@echo "making $(VENV) with $(PYTHON) and installing what is needed (once)"
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@
endif
