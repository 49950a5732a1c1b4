# Everything a newcomer needs: `make match`, `make test`. Only python3.11 and make must be there.
PYTHON ?= python3.11
BIN := .venv/bin

.PHONY: match test test-app oldest slow check stats docs fuzz faults bench venv clean

match: .venv/.core
	$(BIN)/hynet match --out matches.png

# A process a core, each with one thread: files of tests are not torn apart, so that their fixtures are made once.
test: venv
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile

# The oldest pycolmap that we support, in an environment of its own; `make test` has the newest.
OLDEST ?= .venv-oldest
USING_COLMAP := test_reconstruction test_cameras test_sfm test_localisation test_undistortion test_colmap_features test_hloc
oldest: $(OLDEST)/.made
	$(OLDEST)/bin/python -m pytest $(USING_COLMAP:%=tests/%.py)

$(OLDEST)/.made: pyproject.toml constraints.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --constraint constraints.txt --editable '.[sfm]' pycolmap==3.13.0 pytest hypothesis
	touch $@

# The web page in a real browser; screenshots go to results/app. Chromium comes from Debian's packages if it is missing.
test-app: venv
	command -v chromium || apt-get install --yes --no-install-recommends chromium
	$(BIN)/python -m pytest tests/test_app.py tests/test_app_browser.py -m ''

slow: venv
	$(BIN)/python -m pytest -m slow

# Broken inputs for every reader, and faults for every long command: docs/reliability.md says what came of them.
CASES ?= 2000
fuzz: venv
	$(BIN)/python -m research.campaign.fuzz --cases $(CASES) --out research/campaign/fuzz.json

faults: venv
	$(BIN)/python -m research.campaign.faults --out research/campaign/faults.json

# Speed as ratios against peers; `python -m bench NAME` runs one bench.
bench: venv
	$(BIN)/python -m bench

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# How big and how simple the package is, beside what it must be; JSON=1 prints one object.
stats: venv
	@$(BIN)/python -m research.stats $(if $(JSON),--json)

# The document site, in an environment of its own. Warnings are errors: broken links among pages, names that do not exist.
DOCS := .venv-docs/bin
docs: .venv-docs/.made
	$(DOCS)/python -m sphinx -W --keep-going --quiet --builder doctest docs docs/_build/doctest
	$(DOCS)/python -m sphinx -W --keep-going --quiet --builder html docs docs/_build/html
	@echo open docs/_build/html/index.html

.venv-docs/.made: pyproject.toml constraints.txt docs/requirements.txt
	test -x $(DOCS)/python || $(PYTHON) -m venv .venv-docs
	$(DOCS)/pip install --quiet --constraint constraints.txt --editable . --requirement docs/requirements.txt
	touch $@

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
	rm -rf .venv .venv-docs $(OLDEST) docs/_build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
