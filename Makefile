# Every target sets up .venv when it is missing or older than the files that say what is in it.

PYTHON ?= python3
ALL := dev,test,docs,plots,symbolic,vision,hf,onnx,dimension,cluster
EXTRAS ?= $(ALL)

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO := $(VENV)/.demo
COMMA := ,

.DEFAULT_GOAL := help
.PHONY: help demo test lint browser pages bench zoo mutants fuzz chaos degenerate soak cluster matrix dist
.PHONY: release lock audit sbom docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(if $(wildcard $(STAMP)),$(STAMP),$(DEMO)) ## Repeat the paper on digits: polynomials that vanish, every table, one page in out/demo
	$(BIN)/vinets reproduce all --on digits --jobs 2 --out out/demo
	$(BIN)/vinets report out/demo

test: lint ## Check style, types and layers, then run every test and doctest
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --durations=40

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

pages: $(STAMP) browser ## Open every kind of page, wide and narrow, light and dark, and look for faults
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m pages tests

bench: $(STAMP) ## Run all benchmarks: ratios, measured side by side
	$(BIN)/python -m benchmarks

zoo: $(STAMP) ## Cut, train, save and export over a hundred networks of others; goes on where it stopped
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.zoo

mutants: $(STAMP) ## Count how many small faults in the core the tests notice; goes on where it stopped
	$(BIN)/python -m benchmarks.mutants

fuzz: $(STAMP) ## Give 100,000 damaged and hostile files to the readers of all formats
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --inputs 100000 --libraries

chaos: $(STAMP) ## Kill, starve and double commands; each must end as if nothing had happened
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m chaos --kills 100

degenerate: $(STAMP) ## Hold 5,000 fits of degenerate points against an independent loop
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m degenerate --fits 5000

soak: $(STAMP) ## Build, save, load and predict for MINUTES=30, and print the slope of the memory
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m soak --minutes $(or $(MINUTES),30)

cluster: $(STAMP) ## Lose workers of Dask and Ray
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m cluster tests

matrix: $(STAMP) dist ## Test the wheel with the oldest and newest versions supported; MATRIX=--quick for some tests
	PYTHONPATH=tests $(BIN)/python -m matrix dist/*.whl $(MATRIX)

dist: $(VENV)/build/bin/build $(VENV)/twine/bin/twine ## Build wheel and sdist, check them, use the wheel in a bare environment
	rm -rf dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(VENV)/build/bin/python -m build
	$(VENV)/twine/bin/twine check --strict dist/*
	PYTHON=$(PYTHON) .ci/smoke dist/*.whl

release: test docs dist ## Everything that a release takes, but the upload
	$(BIN)/python .ci/release.py

lock: $(VENV)/lock/bin/uv ## Write hashes.txt anew, after a change of pyproject.toml or constraints.txt
	@# for macOS, where torch of PyPI draws in nothing for a GPU; digests are those of all systems
	MACOSX_DEPLOYMENT_TARGET=14.0 $(VENV)/lock/bin/uv pip compile --quiet pyproject.toml $(foreach one,$(subst $(COMMA), ,$(ALL)),--extra $(one)) \
		--constraint constraints.txt --generate-hashes --no-emit-package torch --no-annotate --no-header \
		--python-version 3.11.7 --python-platform macos --output-file $(VENV)/lock/found.txt
	{ sed '/^[^#]/,$$d' hashes.txt; cat $(VENV)/lock/found.txt; } > $(VENV)/lock/hashes.txt
	mv $(VENV)/lock/hashes.txt hashes.txt

audit: $(STAMP) $(VENV)/audit/bin/pip-audit ## Look up known vulnerabilities of what is installed
	@rm -f $(VENV)/audit/found.txt
	@# what is known to be vulnerable is in the file; without one, the list of it could not be read
	@if ! PIPAPI_PYTHON_LOCATION=$(BIN)/python $(VENV)/audit/bin/pip-audit --local --skip-editable \
			--progress-spinner off --timeout 20 --output $(VENV)/audit/found.txt 2>$(VENV)/audit/said.txt; then \
		if test -s $(VENV)/audit/found.txt; then cat $(VENV)/audit/found.txt && exit 1; fi; \
		echo "Nothing was looked up, because the list of vulnerabilities cannot be read from here."; \
	fi

sbom: $(STAMP) $(VENV)/sbom/bin/cyclonedx-bom ## List everything that is installed, as CycloneDX, in out/sbom.json
	@mkdir -p out
	$(VENV)/sbom/bin/cyclonedx-py environment $(BIN)/python --output-format JSON --output-file out/sbom.json

docs: $(STAMP) ## Build the documentation into docs/_build/html and check its links; LINKS=all for external ones
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check.py docs/_build/html
	$(if $(filter all,$(LINKS)),$(BIN)/sphinx-build -b linkcheck docs docs/_build/links)

clean: ## Remove caches and generated files; .venv stays
	rm -rf build dist out docs/_build docs/api/generated .coverage
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# Tools in environments of their own: what they need is not mixed with what is tested.
$(VENV)/%: constraints.txt
	@$(PYTHON) -m venv $(VENV)/$(firstword $(subst /, ,$*))
	@$(VENV)/$(firstword $(subst /, ,$*))/bin/python -m pip install --quiet --disable-pip-version-check \
		-c constraints.txt $(notdir $*)
	@touch $@

# What the demo takes is less than what the tests take, and is there sooner.
$(DEMO): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing vinets[demo] into $(VENV); the first time takes a minute or two"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[demo]"
	@touch $@

$(STAMP): pyproject.toml constraints.txt hashes.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "Installing vinets[$(EXTRAS)] into $(VENV); the first time takes a few minutes"
	@test "$(EXTRAS)" != "$(ALL)" || $(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--require-hashes --no-deps -r hashes.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$(EXTRAS)]"
	@touch $@
