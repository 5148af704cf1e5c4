# `make demo` and `make test` need Python 3.11 or newer and nothing else: they set everything up themselves.
# `make demo` installs alma and its local embedder only; `make test` and `make check` install the rest.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
VENV ?= .venv
BIN = $(VENV)/bin
# Two markers in one environment: what `make demo` needs, and what tests and checks need besides.
READY = $(VENV)/.ready
READY_DEV = $(VENV)/.ready-dev
READY_DOCS = $(VENV)/.ready-docs
# Tests wait as often as they compute, so there are more of them at once than there are processors.
JOBS ?= $(shell $(PYTHON) -c 'import os; print(min(8, 2 * (os.cpu_count() or 1)))')

.PHONY: help setup demo docs test test-fast check bench bench-promises bench-simulation bench-claims bench-reload bench-ingestion bench-mcp bench-serve bench-hooks bench-capture bench-scale bench-durability bench-longmemeval \
	bench-locomo bench-learning gate scoreboard house format test-all clean

help:
	@echo "make demo      the story of a memory that learns, on a scratch database"
	@echo "make test      all tests"
	@echo "make test-fast tests within one process: no servers, hosts or made-up histories"
	@echo "make check     formatting, lint and types"
	@echo "make docs      build the documentation site into build/site"
	@echo "make bench     how fast it is, here"
	@echo "make house     how large the code is, and how far one call travels through it"
	@echo "make test-all  the tests on every Python from 3.11 to 3.13 that is installed"
	@echo
	@echo "make bench-scale       how it grows (SIZES=1000,10000; without it to a million memories, some ten minutes)"
	@echo "make bench-durability  what is lost when processes compete and are killed"
	@echo "make bench-promises    what was promised of the working day, measured (DATA=folder: confidence on its outcomes)"
	@echo "make bench-simulation  whether agents get better with it"
	@echo "make bench-ingestion   how fast chats and exports are read, and in how much memory"
	@echo "make bench-mcp         how soon the MCP server answers; bench-serve: what the HTTP service carries"
	@echo "make bench-hooks       what the hooks of a coding agent cost"
	@echo "make bench-capture     what is lost of sessions when hooks and worker are killed (CLAUDE=path of claude: the real host, too)"
	@echo "make scoreboard        how well readers of language do, on recorded answers of a model and without one (DATA=folder: your rows, too)"
	@echo "make gate DATA=folder  whether quality holds, beside limits (ONLY=slike,pool,locomo,worlds,outcomes,hooks,durability)"
	@echo "make bench-longmemeval DATA=longmemeval_s.json   what it finds again of talks with an assistant"
	@echo "make bench-locomo      DATA=locomo10.json        what it finds again of talks between people"
	@echo "make bench-learning    DATA=folder               whether it learns the right thing"

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
	@touch $(READY) $(READY_DEV) $(READY_DOCS)

$(READY_DOCS): pyproject.toml constraints.txt
	$(call install,docs)
	@touch $(READY_DOCS)

demo: $(READY)
	@$(BIN)/alma demo

docs: $(READY_DOCS)
	@$(BIN)/mkdocs build --strict
	@echo "Built build/site; open build/site/index.html"

test: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-fast: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" --ignore tests/http/test_document.py

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

bench-durability: setup
	$(BIN)/python -m benchmarks.durability

bench-promises: setup
	$(BIN)/python -m benchmarks.promises $(if $(DATA),--data "$(DATA)")

bench-simulation bench-claims bench-reload bench-ingestion bench-mcp bench-serve: setup
	$(BIN)/python -m benchmarks.$(@:bench-%=%)

bench-hooks: setup
	$(BIN)/python -m benchmarks.hooks

bench-capture: setup
	$(BIN)/python -m benchmarks.capture $(if $(CLAUDE),--claude "$(CLAUDE)")

gate: setup
	$(BIN)/python -m benchmarks.gate $(if $(DATA),--data "$(DATA)") $(if $(ONLY),--only "$(ONLY)")

scoreboard: setup
	$(BIN)/python -m benchmarks.reading score --data tests/reading/written --data tests/reading/data --answers tests/reading/written/answers.jsonl
	$(if $(DATA),$(BIN)/python -m benchmarks.reading local --data "$(DATA)")

bench-longmemeval bench-locomo bench-learning: setup
	@test -n "$(DATA)" || { echo "say what to read: make $@ DATA=…" >&2; exit 2; }
	$(BIN)/python -m benchmarks.$(@:bench-%=%) --data "$(DATA)"

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
