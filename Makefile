# `make demo` and `make test` need only Python 3.11 or newer and install everything else themselves.
# `make demo` installs alma with its local embedder; `make test` and `make check` install the rest.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
# Marker files: READY for what `make demo` installs, READY_DEV for the rest.
READY = $(VENV)/.ready
READY_DEV = $(VENV)/.ready-dev
READY_DOCS = $(VENV)/.ready-docs
# Tests wait about as much as they compute, so run two per processor.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * (os.cpu_count() or 1)))')
# Unit tests only compute, so run one per processor.
FAST_JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(8, os.cpu_count() or 1))')

.PHONY: help setup demo docs test test-hosts test-fast check bench bench-promises bench-simulation bench-year bench-claims bench-reload bench-ingestion bench-mcp bench-serve bench-hooks bench-capture bench-scale bench-figures bench-durability bench-longmemeval \
	bench-locomo bench-learning bench-streams gate scoreboard house format test-all clean

help:
	@echo "make demo       install alma and watch it learn, on a scratch database"
	@echo "make test       run all tests"
	@echo "make test-fast  run the unit tests: those that start no process and wait for nothing"
	@echo "make test-hosts install all supported coding agents and run the tests in them"
	@echo "make check      check formatting, lint and types"
	@echo "make format     format the code and apply lint fixes"
	@echo "make docs       build the documentation site"
	@echo "make house      count lines, names and the functions that one call runs"
	@echo "make test-all   run the tests on every installed Python from 3.11 to 3.13"
	@echo
	@echo "make bench              time the everyday operations on this machine"
	@echo "make bench-scale        time them with up to a million memories, about ten minutes (SIZES=1000,10000 for less)"
	@echo "make bench-figures      write the tables of scale and of the server into the documentation (SIZES=1000,10000)"
	@echo "make bench-durability   kill competing processes and count lost writes"
	@echo "make bench-promises     measure the documented limits (DATA=folder adds predictions on its outcomes)"
	@echo "make bench-simulation   compare agents with and without memory"
	@echo "make bench-year         replay a simulated year of a team and count duplicates, wrong merges and losses"
	@echo "make bench-ingestion    measure the speed and memory use of reading chat exports"
	@echo "make bench-mcp          measure the response time of the MCP server"
	@echo "make bench-serve        measure the throughput of the HTTP service"
	@echo "make bench-hooks        measure the time that hooks add to a coding agent"
	@echo "make bench-capture      kill hooks and worker and count lost events (CLAUDE=path adds the real Claude Code)"
	@echo "make scoreboard         score the readers on recorded answers (DATA=folder adds your own rows)"
	@echo "make gate DATA=folder   check quality against limits (ONLY=slike,pool,locomo,worlds,outcomes,hooks,durability)"
	@echo "make bench-longmemeval  measure recall in chats with an assistant (DATA=longmemeval_s.json)"
	@echo "make bench-locomo       measure recall in chats between people (DATA=locomo10.json)"
	@echo "make bench-learning     measure what is learned from outcomes and corrections (DATA=folder)"
	@echo "make bench-streams      compare the first advice with the nearest example (DATA=file with text and label)"

setup: $(READY_DEV)

# $(1): the extras to install, with commas between them
define install
	@test -n "$(PYTHON)" || { echo "alma needs Python 3.11 or newer; none was found" >&2; exit 1; }
	@echo "Installing alma with '$(1)' into $(VENV) ..."
	@if command -v uv >/dev/null 2>&1; then \
		uv venv --quiet --allow-existing --python "$(PYTHON)" "$(VENV)" && \
		VIRTUAL_ENV="$(VENV)" uv pip install --python "$(BIN)/python" -c constraints.txt -e '.[$(1)]'; \
	else \
		"$(PYTHON)" -m venv "$(VENV)" && \
		"$(BIN)/python" -m pip install --disable-pip-version-check -c constraints.txt -e '.[$(1)]'; \
	fi
endef
comma := ,

$(READY): pyproject.toml constraints.txt
	$(call install,local)
	@touch $(READY)

$(READY_DEV): pyproject.toml constraints.txt
	$(call install,all$(comma)dev)
	@echo "Compiling the tests once, and not in each of the processes that run them ..."
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -q -p no:cacheprovider >/dev/null || \
		echo "the tests could not be collected; make test says why"
	@$(BIN)/python -m tests.programs
	@touch $(READY) $(READY_DEV) $(READY_DOCS)

$(READY_DOCS): pyproject.toml constraints.txt
	$(call install,docs)
	@touch $(READY_DOCS)

demo: $(READY)
	@$(BIN)/alma demo

docs: $(READY_DOCS)
	@$(BIN)/mkdocs build --strict
	@echo "Built build/site; open build/site/index.html"

# Compiled files are kept: without them each process compiles the plug-ins of pytest and all tests again.
test test-fast test-hosts: export PYTHONDONTWRITEBYTECODE =

test: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not quality" --durations 10

test-hosts: setup
	ALMA_TEST_HOSTS=all $(BIN)/python -m pytest tests/hosts tests/host/test_misled.py

test-fast: setup
	$(BIN)/python -m pytest -n $(FAST_JOBS) --dist worksteal -m "not system and not quality"

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m tools.check_patterns

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup
	$(BIN)/python -m benchmarks.speed

bench-scale: setup
	$(BIN)/python -m benchmarks.scale $(if $(SIZES),--sizes $(SIZES))

bench-figures: setup
	$(BIN)/python -m benchmarks.scale --stores sqlite,postgres $(if $(SIZES),--sizes $(SIZES)) --page docs/explanation/benchmarks.md
	$(BIN)/python -m benchmarks.serve --stores sqlite,postgres --page docs/explanation/scaling.md

bench-durability: setup
	$(BIN)/python -m benchmarks.durability

bench-promises: setup
	$(BIN)/python -m benchmarks.promises $(if $(DATA),--data "$(DATA)")

bench-simulation bench-year bench-claims bench-reload bench-ingestion bench-mcp bench-serve: setup
	$(BIN)/python -m benchmarks.$(@:bench-%=%)

bench-hooks: setup
	$(BIN)/python -m benchmarks.hooks

bench-capture: setup
	$(BIN)/python -m benchmarks.capture $(if $(CLAUDE),--claude "$(CLAUDE)")

gate: setup
	$(BIN)/python -m pytest -m quality
	$(BIN)/python -m benchmarks.gate $(if $(DATA),--data "$(DATA)") $(if $(ONLY),--only "$(ONLY)")

scoreboard: setup
	$(BIN)/python -m benchmarks.reading score --data tests/reading/written --data tests/reading/data --answers tests/reading/written/answers.jsonl
	$(if $(DATA),$(BIN)/python -m benchmarks.reading local --data "$(DATA)")

bench-longmemeval bench-locomo bench-learning: setup
	@test -n "$(DATA)" || { echo "say what to read: make $@ DATA=…" >&2; exit 2; }
	$(BIN)/python -m benchmarks.$(@:bench-%=%) --data "$(DATA)"

bench-streams: setup
	$(BIN)/python -m benchmarks.streams $(if $(DATA),"$(DATA)")

test-all:
	@for v in 3.11 3.12 3.13; do \
		if python$$v -c '' 2>/dev/null; then \
			echo "== Python $$v" && $(MAKE) --no-print-directory test PYTHON=python$$v VENV=.venv-$$v || exit 1; \
		else echo "== Python $$v is not installed"; fi; \
	done

clean:
	rm -rf $(VENV) .venv-3.1? .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

house: setup
	$(BIN)/python -m tools.house
