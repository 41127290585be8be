# Everything happens in the virtual environment .venv of this checkout. A bare Python 3.11+ and a C compiler are enough:
# the targets set up what they need, once, and again when a C file or the metadata has changed.
#
#   make demo     replay the embedded sample through per-symbol handlers, beside static routing
#   make test     the test suite
#   make docs     the documentation as a site, in build/site
#   make live-trial    strand serve to strand listen on this machine, with losses (30 s; DURATION=N)
#   make lint types asan tsan aarch64 model mutants spin fuzz wheel    the rest of what continuous integration runs
#   make proof    all that continuous integration tries a sample of: every mutant, every damaged input, longer runs (a day)
#   make jobs     twenty jobs as users of polars, databento and nautilus_trader write them, beside ours
#   make contract    every combination of formats, codes, shapes and workers, of which the test suite tries pairs
#   make page    the live page in a real browser, which watches a run for DURATION seconds
#   make http-load    twice the requests that the workers can answer, for DURATION seconds
#   make bad-input hostile book-day bench bench-books bench-feeds bench-peers    every bit flipped; every order accounted for; speed
#
# PYTHON=/path/to/python3.12 chooses the interpreter, DURATION=600 the seconds of tsan, aarch64, fuzz, page and http-load, PYTEST=... adds options.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
DURATION ?= 60
# The two bounds of a model run, one after the other.
ITERATIONS ?= 200000
SEEDS ?= 20000
WHOLE ?=
PYTEST ?=
JOB_PACKAGES ?= databento nautilus_trader
PEER_PACKAGES ?= nautilus_trader hftbacktest csp bytewax
PEERS_OPTIONS ?=
ASAN_DIR := $(CURDIR)/build/asan
ASAN_CC ?= gcc
# A test marked python would double the time of asan, and runs no C that others do not. Of a matrix each value is tried
# once. `make proof` leaves none out.
ASAN_TESTS ?= not python

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Hundreds of tests start a process, each of which would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

# The folders stand for the files that were added to them or taken away.
CORE := $(shell find csrc -type d) $(shell find csrc -type f \( -name '*.c' -o -name '*.h' -o -name '*.py' \))
C_FILES = $(shell find csrc tests bench -type f \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.hpp' \))

.PHONY: help install dev demo test live-trial docs lint format types asan tsan aarch64 model mutants spin fuzz proof http-load page ray contract bad-input hostile prometheus book-day \
  bench bench-books bench-feeds bench-peers jobs wheel clean

help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile

$(VENV)/.made: tools/make_venv.sh
	@tools/make_venv.sh $(VENV)
	$(BIN)/pip install --quiet --upgrade 'setuptools>=77' wheel 'cffi>=1.17'
	@touch $@

# What the package and some extras need, from the index. It is compiled to bytecode where it is imported: most never is.
EXTRAS := test calendars config joblib csv gzip zstd dbn parquet live picows kafka numba plot report pandas polars guard sweep http metrics tui stores
NEEDED = $(BIN)/python tools/dependencies.py $(1) | $(BIN)/pip install --quiet --no-compile --requirement /dev/stdin

# It comes while the core is compiled.
# The old modules go first: setuptools judges by time alone, and would keep them when a C file was only taken away.
$(VENV)/.installed: $(VENV)/.made pyproject.toml setup.py $(CORE)
	@rm -f strand/_core*.so strand/_lab*.so strand/_scheduled*.so
	$(BIN)/pip install --quiet --no-build-isolation --no-deps --editable . & core=$$!; \
	  $(call NEEDED,$(EXTRAS)) || { wait $$core; exit 1; }; wait $$core
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(call NEEDED,dev)
	$(call NEEDED,docs)
	@touch $@

install: $(VENV)/.installed ; @:

dev: $(VENV)/.dev ; @:

demo: install
	@$(BIN)/python -m strand demo

# Two processes more than cores: tests wait half of their time, for a timer, another process or a server.
test: install
	$(BIN)/pytest -n $$(($$(nproc) + 2)) --dist worksteal $(PYTEST)

# Two lines that each lose 1 % of their packets, at 500,000 messages a second.
live-trial: DURATION = 30
live-trial: install
	@$(BIN)/python tests/support/live_trial.py --seconds $(DURATION)

# Ten million messages of 8,172 symbols, and every order accounted for.
book-day: install
	@$(BIN)/python tests/support/book_day.py

# Every combination of tests/contract, where the test suite tries each pair of two factors' values.
contract: install
	$(BIN)/pytest -n auto --dist worksteal tests/contract --exhaustive $(PYTEST)

# Every bit of every sample flipped, each cut, each point of an interrupt and each cell of a matrix, where the test suite
# tries some of them.
bad-input: install
	$(BIN)/pytest -n auto --dist worksteal -m bad_input tests/unit --exhaustive -o timeout=3600 -o faulthandler_timeout=4000 $(PYTEST)

# A real Prometheus scrapes running programs for a minute, and evaluates all exported rules. Debian: prometheus.
prometheus: install
	@command -v prometheus >/dev/null || { echo 'make prometheus: prometheus is not installed' >&2; exit 1; }
	$(BIN)/pytest -q tests/unit/test_prometheus.py tests/unit/test_metrics.py --exhaustive $(PYTEST)

# 3,000 hostile inputs of every kind (files, names, numbers, times, options, outputs, live packets, bombs), counted by kind.
# ARGS="--seed 2", ARGS="--inputs 30000", ARGS="--only live:26".
hostile: install
	@$(BIN)/python tests/support/hostile.py $(ARGS)

bench: install
	$(BIN)/pytest bench --benchmark-only $(PYTEST)

# Without network, from what `make dev` has installed. A warning is an error.
docs: dev
	@$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -b html -d build/site-pages docs build/site
	@echo "the site is at $(CURDIR)/build/site/index.html"

lint: dev
	$(BIN)/python tools/arrows.py
	$(BIN)/python tools/house.py --check
	$(BIN)/python tools/prose.py
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)
	@for file in csrc/books/*.c csrc/measures/*.c csrc/handlers/*.c csrc/codec/*.c csrc/codec/*/*.c; do \
	  $(CC) -std=gnu11 -fsyntax-only -Wall -Wextra -Wconversion -Werror -Wno-unused-parameter -Icsrc $$file || exit 1; \
	done

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)

# feeds/ is the package strand.feeds, which mypy can only see where it is installed: so it looks at a tree of links.
types: dev
	@rm -rf build/types
	@mkdir -p build/types
	@cp -rs $(CURDIR)/strand build/types/strand
	@cp -rs $(CURDIR)/feeds build/types/strand/feeds
	cd build/types && $(BIN)/mypy --strict --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache -p strand
	$(BIN)/pytest -q -m types tests/unit/test_options.py

# A second build of the package, beside the one in .venv and put before it by PYTHONPATH. libstdc++ is loaded early
# because the sanitizer can only stand in for __cxa_throw when it finds it at the start.
asan: install
	@rm -rf $(ASAN_DIR)
	CC=$(ASAN_CC) STRAND_SANITIZE=address,undefined $(BIN)/python setup.py --quiet \
	  build --build-base $(ASAN_DIR) --build-lib $(ASAN_DIR)/lib
	@nm -D $(ASAN_DIR)/lib/strand/_core*.so | grep __asan_ >/dev/null || { echo 'make asan: the core was built without it' >&2; exit 1; }
	export PYTHONPATH=$(ASAN_DIR)/lib PYTHONSAFEPATH=1 PYTHONMALLOC=malloc HYPOTHESIS_PROFILE=asan \
	  LD_PRELOAD="$$($(ASAN_CC) -print-file-name=libasan.so) $$($(ASAN_CC) -print-file-name=libstdc++.so.6)" \
	  ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1; \
	$(BIN)/python -c 'import strand._core as c; assert c.__file__.startswith("$(ASAN_DIR)"), c.__file__'; \
	$(BIN)/pytest -n auto --dist worksteal -o timeout=600 -o faulthandler_timeout=1500 -p no:cacheprovider $(if $(ASAN_TESTS),-m '$(ASAN_TESTS)' --cells 1) $(PYTEST)

tsan:
	tests/stress/run.sh $(DURATION)

# Needs a cross compiler and qemu-user on x86-64.
aarch64:
	tests/stress/aarch64.sh $(DURATION)

# ITERATIONS=... of each program under Relacy, SEEDS=... of the seeded scheduler.
model:
	tests/model/run.sh $(ITERATIONS) $(SEEDS)

# Small wrong changes of the engine, each of which its check has to catch. SAMPLE=12 tries so many, MUTANTS="a b" these.
mutants:
	$(or $(PYTHON),python3) tests/model/mutants.py $(SAMPLE:%=--sample %) $(MUTANTS)

# WHOLE=1 has the longest search too.
spin:
	WHOLE=$(WHOLE) tests/model/spin/run.sh

$(VENV)/.fuzz: $(VENV)/.installed
	$(call NEEDED,fuzz)
	@touch $@

# TARGETS="itch open-npy" runs only those, JOBS=1 one after the other, TOTAL=240 all of them in so many seconds of a core.
# KEEP=1 makes what was found part of the corpus in tests/fuzz/corpus, which each run begins with.
fuzz: $(VENV)/.fuzz
	tests/fuzz/run.sh $(DURATION) $(TARGETS)

# Most of a day. Continuous integration runs a short form of each, which may miss what fails here. The figures go into
# docs/proof.md; CHECKS="tsan fuzz" runs only these.
proof: dev
	@$(BIN)/python tools/proof.py $(CHECKS)

# Twice the requests that the workers of `strand http` can do, by hey (Debian, Ubuntu: apt-get install hey).
# The live page in a real browser, which watches a run for a while. Debian: chromium.
page: install
	@command -v chromium >/dev/null || { echo 'make page: chromium is not installed' >&2; exit 1; }
	PAGE_WATCH_S=$(DURATION) $(BIN)/pytest -q tests/unit/screens/test_page.py -o timeout=3600 -o faulthandler_timeout=4000 $(PYTEST)

http-load: install
	HTTP_LOAD_S=$(DURATION) $(BIN)/pytest -q -s -o timeout=3600 tests/unit/http/test_load.py $(PYTEST)

# A sweep on a Ray cluster of two nodes on this machine, of which one is killed. Ray is installed for it.
ray: install
	$(call NEEDED,ray)
	$(BIN)/pytest -q tests/unit/sweeping/test_ray.py $(PYTEST)

# Full books of a day, from a file: ARGS="--turns 9" and the like.
bench-books: install
	@$(BIN)/python bench/books.py $(ARGS)

# Feeds beside the usual tools; PARTS="itch gz" only these, PARTS=memory what replaying 2 GB takes.
bench-feeds: install
	$(call NEEDED,bench)
	$(BIN)/python bench/feeds.py $(PARTS)

# Beside other packages, installed from the index into an environment of their own where they can be, and Boost.Asio
# where its headers are (Debian, Ubuntu: apt-get install libboost-dev). Writes the tables of docs/peers.md.
PEERS := build/peers
bench-peers:
	@tools/make_venv.sh $(PEERS)
	$(PEERS)/bin/pip install --quiet 'setuptools>=77' wheel 'cffi>=1.17'
	$(PEERS)/bin/pip install --quiet --no-build-isolation --editable '.[numba]'
	@mkdir -p $(PEERS)/why
	@for peer in $(PEER_PACKAGES); do \
	  $(PEERS)/bin/pip install --quiet $$peer 2>$(PEERS)/why/$$peer || \
	    export "PEER_$${peer^^}=$$(grep -m1 ERROR $(PEERS)/why/$$peer)"; \
	done; $(PEERS)/bin/python bench/peers.py --out docs/peers.md $(PEERS_OPTIONS)

# The jobs of examples/jobs as users of other packages write them, which are installed from the index into an environment
# of their own. Prints the table, and fails where a result differs or a peer takes fewer statements.
JOBS := build/jobs
JOB_EXTRAS := numba,csv,gzip,zstd,dbn,parquet,polars,pandas,sweep
jobs:
	@tools/make_venv.sh $(JOBS)
	$(JOBS)/bin/pip install --quiet 'setuptools>=77' wheel 'cffi>=1.17'
	$(JOBS)/bin/pip install --quiet --no-build-isolation --editable '.[$(JOB_EXTRAS)]' $(JOB_PACKAGES)
	$(JOBS)/bin/python examples/jobs/job_table.py

# The cross compiler of aarch64 makes a wheel for that as well.
wheel: install
	$(call NEEDED,release)
	$(BIN)/python tools/check_dist.py dist

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	rm -f strand/_core*.so strand/_lab*.so strand/_scheduled*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
