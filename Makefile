# The commands of the project. Each one sets up what it needs; run again, it starts at once.
#   make demo PYTHON=python3.12   uses another interpreter for a new .venv
#   make test JOBS=8              uses more test processes

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
PY     := $(VENV)/bin/python
BASE   := $(VENV)/.base-installed
DEV    := $(VENV)/.dev-installed

.DEFAULT_GOAL := help
.PHONY: help demo test check stubs bench fuzz levels soak faults reads ranks sanitize gpu-test pythons docs wheel install-test clean

help:
	@echo "make demo    run the example kernels and compare them with NumPy"
	@echo "make test    everything that must hold: lint, types, import rules, tests"
	@echo "make check   lint, types and import rules only"
	@echo "make bench   the benchmark suites (SUITE=cpu|science|tune|threads|compile|dispatch|start|pto|cuda picks one)"
	@echo "make fuzz    random programs (PROGRAMS=20000), every op with every dtype on reference and cpu, and the soak"
	@echo "make levels  the differential suite and random programs (PROGRAMS=1000) with each instruction set forced"
	@echo "make soak    16 threads call different kernels at once (SECONDS=60)"
	@echo "make faults  the disk cache under injected faults (FAULTS=100000)"
	@echo "make gpu-test  everything on the GPU of this machine; results go to gpu-results/ (OUT=DIR)"
	@echo "make gpu-sanitize  a sample of kernels and random programs under compute-sanitizer"
	@echo "make pythons  the tests that call kernels on the other versions of Python that are here (PYTHONS='3.12 3.13' picks some)"
	@echo "make reads   what kernels read of Python: random expressions (READS=20000) and races (RACES=170 rounds, six ways)"
	@echo "make sanitize  the kernels of the suite and the examples in the sanitizer, which must find nothing"
	@echo "make ranks   several ranks: every collective with every dtype and size, and jobs of which one process is killed (KILLS=100)"
	@echo "make docs    the site, in build/site; a warning is an error"
	@echo "make wheel   the package, in dist/"
	@echo "make install-test  every command of README and tour, in a fresh clone and from the wheel in an empty environment, and the demo"
	@echo "make stubs   write the editors' stub of the language anew from the op table"

$(PY):
	$(PYTHON) -c 'import sys; sys.exit("tilejit needs Python 3.11 or newer, got %d.%d: set PYTHON=..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

# The stamps depend on pyproject.toml alone: the install is editable, sources need no reinstall.
$(BASE): pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --editable .
	@touch $@

$(DEV): pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --editable '.[dev]'
	@touch $(BASE) $@

demo: $(BASE)
	@$(PY) -m tilejit demo

check: $(DEV)
	@$(PY) -m ruff check --quiet . && echo "ruff: ok"
	@$(PY) -m basedpyright --level error --pythonpath $(PY) && echo "types: ok"
	@$(VENV)/bin/lint-imports --no-cache
	@$(PY) scripts/write_stubs.py --check && echo "stubs: ok"

stubs: $(DEV)
	$(PY) scripts/write_stubs.py

test: check
	$(PY) -m pytest -q -n $(JOBS) --durations=10
	TILEJIT_FASTPATH=0 $(PY) -m pytest -q -n $(JOBS) -m "dispatch and not slow"
	$(PY) scripts/pythons.py --sample

bench: $(DEV)
	@$(PY) bench/run.py $(or $(SUITE),cpu threads compile dispatch start pto)

fuzz: $(DEV)
	$(PY) -m tests.fuzz --programs $(or $(PROGRAMS),20000) --jobs $(JOBS)
	$(PY) -m tests.pto.fuzz --files $(or $(FILES),20000)
	$(PY) -m tests.pto.random_kernels --kernels $(or $(KERNELS),500)
	$(PY) -m tests.differential --jobs $(JOBS)
	$(PY) -m tests.soak --seconds $(or $(SECONDS),60)

levels: $(DEV)
	$(PY) -m tests.levels --programs $(or $(PROGRAMS),1000) --jobs $(JOBS)

soak: $(DEV)
	$(PY) -m tests.soak --seconds $(or $(SECONDS),60)

faults: $(DEV)
	TILEJIT_TEST_FAULTS=$(or $(FAULTS),100000) $(PY) -m pytest -q -n $(JOBS) -k "faults and not defaults" tests/runtime tests/jit

gpu-test: $(DEV)
	$(PY) -m pytest -q -m gpu --junitxml=$(or $(OUT),gpu-results)/pytest.xml tests
	$(PY) -m tests.gpu --out $(or $(OUT),gpu-results)

# Under NVIDIA's compute-sanitizer, which is part of the CUDA toolkit: every third kernel of the suite, compiled before, and a sample of random programs.
gpu-sanitize: $(DEV)
	$(PY) -m tests.gpu --out $(or $(OUT),gpu-results)/plain --cache $(or $(OUT),gpu-results)/kernels --every 3 --kinds suite
	for tool in memcheck racecheck; do \
	  $(PY) -m tests.gpu --sanitize $$tool --out $(or $(OUT),gpu-results)/$$tool --cache $(or $(OUT),gpu-results)/kernels --every 3 --kinds suite || exit 1; \
	  $(PY) -m tests.gpu --sanitize $$tool --out $(or $(OUT),gpu-results)/$$tool --kinds programs || exit 1; \
	done

reads: $(DEV)
	TILEJIT_TEST_READS=$(or $(READS),20000) TILEJIT_TEST_RACES=$(or $(RACES),170) $(PY) -m pytest -q -n $(JOBS) tests/jit/test_generated_reads.py tests/jit/test_answers.py tests/jit/test_threads_that_follow.py

sanitize: $(DEV)
	TEST_PLATFORM=sanitize $(PY) -m pytest -q -n $(JOBS) tests/suite tests/test_examples.py tests/test_kernels.py

ranks: $(DEV)
	$(PY) -m tests.ranks.matrix
	$(PY) -m tests.ranks.kills --rounds $(or $(KILLS),100)

docs: $(DEV)
	$(PY) -m pip install --quiet --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict  # the banner of the theme about another program is no warning of ours

wheel: | $(PY)
	rm -rf dist
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .

install-test: wheel
	$(PY) -m tests.docs.commands dist/*.whl

# Without torch, which is large; the whole of the tests on another version: make test PYTHON=python3.12 VENV=.venv-3.12
pythons: $(DEV)
	$(PY) scripts/pythons.py --jobs $(JOBS) $(PYTHONS)

clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
