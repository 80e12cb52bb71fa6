# The same commands for a person and for CI. `make gate` and `make test` are all the set-up there is.
PYTHON ?= python3.11
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: gate test check setup format mutate mutmut bench clean

gate: setup        ## fabricate, serve three ways, compare, trace
	$(BIN)/pytest harness -q

test: setup        ## the project's own tests
	$(BIN)/pytest tests -q

check: setup       ## format, lint, types, layers and the fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest tests -q -m "not e2e"

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@command -v strace >/dev/null || { \
	  echo 'strace is missing: installing the system package'; \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -qq -y strace; \
	  else sudo apt-get update -qq && sudo apt-get install -qq -y strace; fi; }
	touch $@
