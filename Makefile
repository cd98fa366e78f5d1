PYTHON ?= python3
BIN := .venv/bin
# What is installed: the package alone, or also what tests, documentation and linters need.
CORE := .venv/.core
DEV := .venv/.dev
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test test-all site-check docs docs-pages bench clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(CORE) ## Install the package into .venv, explain a bundled photograph, write out/demo.png
	$(BIN)/secondsight demo --out out/demo.png

test: $(DEV) ## What CI runs: linters, types, direction of imports, tests, and a wheel in an empty environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m bench.publish --check
	$(BIN)/python -m scripts.reference_pages --check
	$(BIN)/pytest -n 2 -rs
	scripts/check_wheel.sh

# Ray, the other readers of a run's files and JupyterLab take more than 800 MB, so `make test` does without them.
test-all: test site-check ## Also the slow tests, the built site in a browser, and runs on Ray
	$(PIP) -e '.[dev-all]'
	$(BIN)/pytest -n 2 tests/test_run_readers.py
	$(BIN)/pytest -n 2 -m slow

site-check: $(DEV) ## Build the site; check its links, search and accessibility; write screenshots to out/site (needs chromium)
	$(BIN)/python -m mkdocs build --strict --quiet --site-dir out/site/html
	$(BIN)/python -m scripts.check_links out/site/html
	$(BIN)/python -m scripts.check_site out/site/html --screenshots out/site/screenshots

docs: $(DEV) ## Build the documentation and serve it at http://127.0.0.1:8000
	$(BIN)/python -m mkdocs serve --strict --livereload

docs-pages: $(DEV) ## Write again what programs write of the documentation: reference, notebooks, pictures, figures
	$(BIN)/python -m scripts.reference_pages
	$(BIN)/python -m scripts.notebook_pages
	$(BIN)/python -m scripts.docs_images
	$(BIN)/python -m scripts.viewer_pictures
	$(BIN)/python -m bench.publish

bench: $(DEV) ## Measure what maps cost
	$(BIN)/python -m bench.run --json out/bench/run.json

clean: ## Remove what was built; .venv stays
	rm -rf out build dist site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

$(CORE): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

$(DEV): $(CORE)
	$(PIP) -e '.[dev]'
	touch $@
