# Everything starts here, on a machine with Python >= 3.11, pip and make.

PYTHON ?= python3
VENV := .venv
MILVUS := .venv-milvus
FRAMEWORKS := .venv-frameworks
AUDIT := .venv-audit
WHEELS := .venv-wheels
HERMES := .venv-hermes
SITE := .venv-docs
BIN := $(VENV)/bin
# Tests wait for each other's processes and for the disk: more workers than cores, and files in memory where it has room.
TESTED = TMPDIR=$$($(BIN)/python scripts/test_folder.py) $(BIN)/python -m pytest -n $$(( 2 * $$(getconf _NPROCESSORS_ONLN) )) --dist worksteal
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Bytecode is kept, whatever the environment says: tests start many interpreters.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: chromium demo test lint audit bench figures quality soak conformance mcpb sbom wheels wheels-check wheels-emulated docs cluster-test spec clean

demo: $(VENV)/installed
	$(BIN)/fourfold demo

test: $(VENV)/tested $(MILVUS)/installed $(FRAMEWORKS)/installed $(HERMES)/installed chromium
	$(BIN)/ruff check .
	$(TESTED) -m "not soak"

lint: $(VENV)/tested $(FRAMEWORKS)/installed $(HERMES)/installed
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pyright --pythonpath $(FRAMEWORKS)/bin/python --project tests/external/frameworks
	$(BIN)/python scripts/spec_table.py --check
	$(BIN)/python scripts/reference_tables.py --check
	$(BIN)/python scripts/check_links.py

# Compares the pinned dependencies with the database of known vulnerabilities: needs the network.
audit: $(AUDIT)/installed
	$(AUDIT)/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

soak: $(VENV)/tested $(VENV)/fuzzed $(MILVUS)/installed $(FRAMEWORKS)/installed $(HERMES)/installed chromium
	$(BIN)/python -m pytest -n auto --dist worksteal -m soak -rP
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not soak" --hypothesis-profile explore $$(grep -rl "from hypothesis" tests --include "test_*.py")

# The official suite of MCP servers: an npm package, needs npx and the network.
conformance: $(VENV)/tested
	$(BIN)/python -m pytest tests/interfaces/mcp/test_mcp_conformance.py -m soak

mcpb: $(VENV)/installed
	$(BIN)/python scripts/mcpb.py

# The bill of materials (CycloneDX) of what pip installs.
sbom: $(VENV)/installed
	$(BIN)/python scripts/sbom.py

# The documentation site, in build/site: a wrong link is an error.
docs: $(SITE)/installed
	$(SITE)/bin/python scripts/docs_site.py
	$(SITE)/bin/zensical build --strict

# Wheels for Linux, macOS and Windows and the sdist, from this machine: `ziglang` is the cross compiler.
wheels: $(WHEELS)/installed
	rm -rf dist build
	$(WHEELS)/bin/python scripts/wheels.py

# Tags, content, the C library that is needed, and the tour from the wheel where there is no compiler.
wheels-check: $(WHEELS)/installed
	$(WHEELS)/bin/python scripts/check_wheels.py

# The tests of the kernel from the aarch64 wheel: needs Debian with qemu-user, root and the network.
wheels-emulated: $(WHEELS)/installed
	$(WHEELS)/bin/python scripts/emulate_wheel.py

# Starts a Milvus core and a cluster of three Weaviate nodes; building Weaviate takes about a quarter of an hour, once.
cluster-test: $(VENV)/tested $(MILVUS)/installed
	$(BIN)/python tests/support/weaviate_nodes.py --build
	$(BIN)/python -m pytest tests/stores/cluster -m "soak or not soak" -rP
	$(BIN)/python -m pytest tests/stores/conformance -m "soak or not soak" -k "milvus or weaviate"

bench: $(VENV)/benched
	$(BIN)/python benchmarks/compare.py
	$(BIN)/python benchmarks/must_show.py

# Renews every figure of docs/benchmarks.md on a machine with nothing else to do: some hours.
figures: $(VENV)/tested $(VENV)/benched
	$(BIN)/python benchmarks/compare.py --items 10000,100000 --record --plot docs/growth.png
	$(BIN)/python benchmarks/quality.py
	$(BIN)/python benchmarks/confidence.py gather
	$(BIN)/python benchmarks/confidence.py fit
	$(BIN)/python benchmarks/rerank.py
	$(BIN)/python benchmarks/precision.py
	$(BIN)/python benchmarks/postgres.py
	$(BIN)/python benchmarks/mcp_cost.py
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

# The browser for the tests of the workbench, which are skipped without one.
chromium:
	@command -v chromium chromium-browser >/dev/null || \
	{ test "$$(id -u)" = 0 && apt-get update --quiet >/dev/null 2>&1 && apt-get install --yes --quiet --no-install-recommends chromium >/dev/null 2>&1; } || \
	echo "no Chromium here: the tests of the workbench are skipped"

$(AUDIT)/installed: constraints.txt
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip-audit
	touch $@

$(SITE)/installed: constraints.txt
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt zensical "mkdocstrings[python]"
	touch $@

$(WHEELS)/installed: constraints.txt
	$(PYTHON) -m venv $(WHEELS)
	$(WHEELS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt auditwheel build hatchling twine ziglang
	touch $@

# The core of Milvus as a server: its wheel needs an old setuptools.
$(MILVUS)/installed: constraints.txt
	$(PYTHON) -m venv $(MILVUS)
	$(MILVUS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt milvus-lite "setuptools<80" || echo "no Milvus for this platform: its tests are skipped"
	touch $@

# LangChain, Haystack, LangGraph, LlamaIndex and the SDK of Anthropic, on top of $(VENV), which stays free of them and of
# their plugins for pytest. Bytecode is compiled when it is needed: most of it never is.
# Hermes pins the exact versions of what it needs, so only its own modules are installed, beside those of the tests.
$(HERMES)/installed: $(VENV)/tested
	$(PIP) --no-deps --upgrade --target $(HERMES) hermes-agent
	touch $@

$(FRAMEWORKS)/installed: $(VENV)/tested
	$(PYTHON) -m venv --without-pip --clear $(FRAMEWORKS)
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' % sysconfig.get_path('purelib'))" \
		> $$($(FRAMEWORKS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/below.pth
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-compile \
		$$($(BIN)/python scripts/groups.py frameworks)
	touch $@

$(VENV)/benched: $(VENV)/installed benchmarks/requirements.txt
	$(PIP) --requirement benchmarks/requirements.txt
	touch $@

clean:
	rm -rf $(VENV) $(MILVUS) $(FRAMEWORKS) $(HERMES) $(AUDIT) dist build .pytest_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache
