# The same commands for a person and for CI. `make gate` and `make test` are all the set-up there is.
PYTHON  ?= python3.11
VENV    ?= .venv
BIN     := $(VENV)/bin
SUBJECT ?= forward-serve
SHUFFLES ?= 100
SEED    ?= $(shell date -u +%Y%m%d)00

.PHONY: gate shuffled new-models nightly test check check-static format mutate mutate-full relay llama mutmut bench test-torch setup

gate: setup          ## fabricate, serve every arm, compare, trace
	$(BIN)/pytest harness -q --subject $(SUBJECT)

shuffled: setup      ## SHUFFLES gate runs, each in an order and with cases of its own, by seeds from SEED on
	for seed in $$(seq $(SEED) $$(($(SEED) + $(SHUFFLES) - 1))); do \
	  $(BIN)/draftproof run --subject $(SUBJECT) --shuffle $$seed || exit $$?; done

new-models: setup    ## the gate on models that nobody has seen: the recipes with other seeds, by SEED
	new=$$(mktemp -d) && $(BIN)/draftproof fabricate --reseed $(SEED) --into $$new && \
	  $(BIN)/draftproof run --subject $(SUBJECT) --recipe $$new/tiny.toml && rm -r $$new

nightly: setup       ## 2000 bad files, the deep tier, then the shuffled gate runs and new models
	BAD_FILES=1000 $(BIN)/pytest -q tests/forward_serve/test_bad_files.py
	$(BIN)/draftproof run --subject $(SUBJECT) --tier deep
	$(MAKE) shuffled
	$(MAKE) new-models

test: setup          ## the project's own tests
	$(BIN)/pytest tests -q

check: check-static  ## format, lint, types, layers and the fast tests
	$(BIN)/pytest tests -q -m "not e2e"

check-static: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

mutate: setup        ## plant every fault and prove that the checks it names fail
	$(BIN)/draftproof mutate --subject $(SUBJECT)

mutate-full: setup   ## the same, every check asked of every mutant, and the tool's own catalogue
	$(BIN)/draftproof mutate --subject $(SUBJECT) --full
	$(BIN)/draftproof mutate --subject harness

relay: setup         ## faults of a relay before the subject, which needs no source: `make relay SUBJECT=llama-server`
	$(BIN)/draftproof mutate --relay --subject $(SUBJECT)

llama: setup         ## llama.cpp's own server behind the gate, then faults of the relay before it
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,llama]'
	$(BIN)/draftproof run --subject llama-server
	$(BIN)/draftproof mutate --relay --subject llama-server

mutmut: setup        ## operator mutants of the pure rooms, or of MUTMUT_PATHS="harness/checks forward_serve/decoding/loop.py"
	$(BIN)/python -m tools.operator_mutants $(MUTMUT_PATHS)

bench: setup         ## figures of the engine and of lookup; never part of a test
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.speculation
	$(BIN)/python -m benchmarks.lookup

test-torch: setup    ## transformers as a subject and as an oracle, and the published dflash model, on torch's CPU build
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[torch]'
	$(BIN)/pip install --quiet --no-deps dflash==0.1.0
	$(BIN)/pytest tests/torch -q

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@command -v strace >/dev/null || { \
	  echo 'strace is missing: installing the system package'; \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -qq -y strace; \
	  else sudo apt-get update -qq && sudo apt-get install -qq -y strace; fi; }
	touch $@
