# Everything a newcomer needs: `make match`, `make test`. Only python3.11 and make must be there.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: match test slow check fuzz faults venv clean

match: .venv/.core
	$(BIN)/hynet match --out matches.png

test: venv
	$(BIN)/python -m pytest

slow: venv
	$(BIN)/python -m pytest -m slow

# Broken inputs for every reader, and faults for every long command: docs/reliability.md says what came of them.
CASES ?= 2000
fuzz: venv
	$(BIN)/python -m campaign.fuzz --cases $(CASES) --out campaign/fuzz.json

faults: venv
	$(BIN)/python -m campaign.faults --out campaign/faults.json

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

venv: .venv/.all

# A stamp a target: made anew when the packages we ask for change, left alone otherwise.
.venv/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	touch $@

# torch goes first, by its exact version: asked for as a range it brings gigabytes of GPU packages.
.venv/.all: pyproject.toml constraints.txt dev-requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all]' --requirement dev-requirements.txt
	touch $@

clean:
	rm -rf .venv dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
