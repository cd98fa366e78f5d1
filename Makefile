PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-all bench clean

demo: $(READY)
	$(BIN)/secondsight demo --out out/demo.png

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m bench.publish --check
	$(BIN)/pytest -n 2 -rs
	scripts/check_wheel.sh

# Ray and the other readers of a run's files take 800 MB, so `make test` does without them.
test-all: test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev-all]'
	$(BIN)/pytest -n 2 tests/test_run_readers.py
	$(BIN)/pytest -n 2 -m slow

bench: $(READY)
	$(BIN)/python -m bench.run --json out/bench/run.json

clean:
	rm -rf out build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@
