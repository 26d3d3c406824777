# make demo    set up and run the demo            make test    set up, then lint, types and tests, on WORKERS cores
# make coverage        the same tests, and which lines none of them runs: below 90 % it fails
# make test-browser    the interactive page in a real browser (installs Debian's chromium where it is missing)
# make fuzz SECONDS=600    damaged recordings and run folders against readers and runs; what fails is kept in fuzz-failures/
# make crash           every command that writes, killed before each of its file-system changes
# make test-lowest     the tests with the lowest versions that pyproject.toml admits
# All need Python >= 3.11 and make, nothing else; once set up they work offline.

PYTHON ?= python3
SECONDS ?= 600
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin
DEMO := $(VENV)/.demo
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt --editable
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# waits in a browser depend on the machine's load, so what failed is tried once more, and says so
BROWSER_TESTS := $(BIN)/python -m pytest tests/browser/test_explorer_browser.py

.PHONY: demo test test-lowest test-browser browser fuzz crash lint coverage clean

demo: $(DEMO)
	$(BIN)/plan2vec demo

test: $(READY) lint
	$(PYTEST)

test-browser: $(READY) browser
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[browser]'
	$(BROWSER_TESTS) || (echo "once more: what failed"; $(BROWSER_TESTS) --last-failed)

fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py --seconds $(SECONDS)

crash: $(READY)
	$(BIN)/python tests/crash/crash.py

test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt --editable '.[dev]'
	.venv-lowest/bin/python -m pytest --numprocesses $(WORKERS) --override-ini filterwarnings=ignore

browser:
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

coverage: $(READY)
	$(PYTEST) --cov --cov-report=term-missing

$(DEMO): pyproject.toml constraints.txt  # the package alone
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "plan2vec needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@echo "installing, about 2 minutes, 2 GB"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) .
	@touch $(DEMO)

$(READY): $(DEMO)  # all extras and the tools of tests too
	@echo "installing what tests need, about 2 minutes"
	@$(INSTALL) '.[dev]'
	@touch $(READY)

clean:
	rm -rf $(VENV)

.PHONY: docs
docs: $(READY)  # the site, into build/site; a broken link or anchor fails
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
