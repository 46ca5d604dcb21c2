# Every target sets up .venv when it is missing or older than pyproject.toml or constraints.txt.

PYTHON ?= python3
EXTRAS ?= dev,test,docs,plots,symbolic,vision,hf,onnx,dimension,cluster

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test lint browser bench mutants fuzz sbom docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP) ## Train a network on digits and find a small one that does as well; a page in out/demo
	$(BIN)/vinets train --model digits_cnn --data digits --out out/demo/uncut
	$(BIN)/vinets compress out/demo/uncut --data digits --budget drop=0.5 --out out/demo/small
	@echo "The page: out/demo/small/report.html"

test: lint browser ## Check style, types and layers, then run every test and doctest
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

lint: $(STAMP) ## Check style, types, layers and what is installed only
	$(BIN)/python -m pip check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

browser: ## Install Chromium for the tests of pages, where it is missing and apt-get may
	@if ! { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null \
		&& command -v apt-get >/dev/null && test "$$(id -u)" = 0; then \
		apt-get update -qq && apt-get install -y -qq chromium \
			|| echo "Chromium could not be installed; tests that need it are skipped"; \
	fi

bench: $(STAMP) ## Run all benchmarks: ratios, measured side by side
	$(BIN)/python -m benchmarks

mutants: $(STAMP) ## Count how many small faults in the core the tests notice; goes on where it stopped
	$(BIN)/python -m benchmarks.mutants

fuzz: $(STAMP) ## Give 100,000 damaged and hostile files to every reader
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --inputs 100000 --libraries

sbom: $(STAMP) ## List everything that is installed, as CycloneDX, in out/sbom.json
	@test -x $(VENV)/sbom/bin/cyclonedx-py || { $(PYTHON) -m venv $(VENV)/sbom && \
		$(VENV)/sbom/bin/python -m pip install --quiet -c constraints.txt cyclonedx-bom; }
	@mkdir -p out
	$(VENV)/sbom/bin/cyclonedx-py environment $(BIN)/python --output-format JSON --output-file out/sbom.json

docs: $(STAMP) ## Build the documentation into docs/_build/html
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

clean: ## Remove caches and generated files; .venv stays
	rm -rf build dist out docs/_build docs/api/generated .coverage
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing vinets[$(EXTRAS)] into $(VENV); the first time takes a few minutes"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@
