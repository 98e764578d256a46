# make demo, make test: each first sets up whatever is missing (packages, Python environment, build).
#   PYTHON=python3.12   use another interpreter      BUILD=dir    use another build folder
#   SETUP=0             skip the package check (no root, everything already installed)
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BUILD ?= build
VENV ?= .venv
SETUP ?= 1
JOBS ?= $(shell nproc)
WHEEL_PYTHONS ?= python3.11 python3.12
FUZZ ?= 400
# make check-fuzz: numbers of damaged .mlir files and of specialisations of one kernel; one of so many changed lines of
# the emulator (CHANGED_LINES=1: all of them, which takes two minutes)
MUTANTS ?= 500
CHANGED_LINES ?= 4
SPECIALIZATIONS ?= 150
# make test-gpu: which parts (all if empty), a Python with torch, the number of random programs
GPU_PARTS ?=
GPU_PYTHON ?= $(VENV)/bin/python
GPU_FUZZ ?= 10000

LLVM := 22
PACKAGES := clang-$(LLVM) lld-$(LLVM) llvm-$(LLVM)-dev libmlir-$(LLVM)-dev mlir-$(LLVM)-tools clang-format-$(LLVM) \
  cmake ninja-build ccache g++ libgtest-dev libzstd-dev zlib1g-dev
PYTHON_PACKAGES := python3 python3-venv python3-dev
BENCH_PYTHON ?= $(VENV)/bin/python
RUN := PYTHONPATH=$(CURDIR)/$(BUILD)/python $(VENV)/bin/python
# Tests run with freed memory overwritten and allocated memory nonzero.
FILL := MALLOC_PERTURB_=165
PYTEST := $(FILL) $(RUN) -m pytest -p no:cacheprovider
# Where tests take every core, numpy's threads would only wait for each other, which OpenBLAS does in a loop. Not where
# numpy's time is compared with.
SHARED := OPENBLAS_NUM_THREADS=1

.PHONY: help setup packages build demo bench test check-lit check-cpp check-python check-kernels check-ptxas \
  check-emulated check-fuzz docs-check lint format wheel clean

help:
	@echo 'make demo        run every kernel of the library, show a table'
	@echo 'make test        everything that needs no GPU (check-lit, -cpp, -python, -kernels, -ptxas, -emulated, -fuzz; docs-check)'
	@echo 'make bench       kernels on this GPU beside other libraries (BENCH="norm --html report.html", BENCH_PYTHON=python3)'
	@echo 'make test-gpu    every test that needs a GPU (GPU_PARTS=gpu,kernels,host,language,found,fuzz,memcheck,racecheck,synccheck, GPU_PYTHON=python3)'
	@echo 'make wheel       dist/*.whl for $(WHEEL_PYTHONS)'
	@echo 'make lint format docs-check build clean'

# ---- set-up ----------------------------------------------------------------------------------------------------------
packages:
ifeq ($(SETUP),1)
	@missing=""; for p in $(PACKAGES); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if ! $(PYTHON) -c 'import ensurepip, sysconfig, os; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' \
	    >/dev/null 2>&1; then missing="$$missing $(PYTHON_PACKAGES)"; fi; \
	if [ -n "$$missing" ]; then \
	  echo "installing:$$missing"; \
	  if [ "$$(id -u)" = 0 ]; then as=""; elif command -v sudo >/dev/null; then as=sudo; else \
	    echo "These packages are missing and this is not root; see 'Without root' in README.md."; exit 1; fi; \
	  $$as apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$as apt-get install -y -qq --no-install-recommends $$missing \
	    >/dev/null; \
	fi
endif

$(VENV)/.ready: pyproject.toml | packages
	@echo 'making $(VENV)/'
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -c 'import re; text = open("pyproject.toml").read(); \
	  print("\n".join(re.findall(r"\"([^\"]+)\"", re.search(r"\ndev = \[(.*?)\]\n", text, re.S)[1])))' > $(VENV)/pins.txt
	@$(VENV)/bin/pip install -q --disable-pip-version-check -r $(VENV)/pins.txt
	@touch $@

setup: packages $(VENV)/.ready

$(BUILD)/build.ninja: | setup
	@echo 'building in $(BUILD)/: the first time takes minutes'
	@cmake -G Ninja -S . -B $(BUILD) -DCMAKE_C_COMPILER=clang-$(LLVM) -DCMAKE_CXX_COMPILER=clang++-$(LLVM) \
	  -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/bin/python > $(BUILD).log 2>&1 || { tail -30 $(BUILD).log; exit 1; }; \
	  mv $(BUILD).log $(BUILD)/configure.log

build: setup $(BUILD)/build.ninja
	@ninja -C $(BUILD) -j $(JOBS) --quiet

# ---- use -------------------------------------------------------------------------------------------------------------
demo: build
	@$(RUN) -m kiln.demo

# BENCH: what to measure, for example "norm softmax --peers torch,quack --html report.html"; BENCH_PYTHON needs torch.
bench: build
	@PYTHONPATH=$(CURDIR)/$(BUILD)/python $(BENCH_PYTHON) bench/suite.py $(BENCH)

wheel: setup
	@$(VENV)/bin/python python/wheels.py --build $(BUILD) --dist dist $(WHEEL_PYTHONS)

# ---- tests: each tier can be run alone; `test` is all of them ---------------------------------------------------------
test: check-lit check-cpp check-python check-kernels check-ptxas check-emulated check-fuzz docs-check

test-gpu: build
	@KILN_FUZZ_PROGRAMS=$(GPU_FUZZ) PYTHONPATH=$(CURDIR)/$(BUILD)/python $(GPU_PYTHON) test/gpu/run.py --jobs $(JOBS) --parts "$(GPU_PARTS)" \
	  --summary $(BUILD)/test-gpu/summary.txt

check-lit: build
	@$(FILL) KILN_BUILD=$(BUILD) $(VENV)/bin/lit -j $(JOBS) -sv -D python=$(CURDIR)/$(VENV)/bin/python test

check-cpp: build
	@$(FILL) ctest --test-dir $(BUILD) -j $(JOBS) --output-on-failure --no-tests=error | tail -n 15; exit $${PIPESTATUS[0]}

check-python: build
	@$(SHARED) $(PYTEST) -n $(JOBS) -m "not bench and not fuzz and not gpu" test/python
	@$(PYTEST) -m bench test/python

check-kernels: build
	@$(SHARED) $(PYTEST) -n $(JOBS) test/kernels
	@$(SHARED) $(PYTEST) -n $(JOBS) -m "not host and not fuzz" test/kernels --plans gpu

# Machine code for every GPU of the target table, from the pinned ptxas; needs no GPU.
# One process more than cores, as one test waits half a minute for an assembler that hangs.
check-ptxas: build
	@$(PYTEST) -n $$(($(JOBS) + 1)) test/ptxas

# PTX on the emulator in test/emulator: the library and random programs in two orders of warps, and some language tests.
# Needs no GPU and no ptxas.
EMULATED := test/emulator \
  $(addprefix test/python/language/test_run_, descriptor.py dot.py dot_scaled.py escape.py map.py memory.py products.py tiles.py) \
  $(addprefix test/python/programs/, test_loops.py test_pointers.py test_scans_and_reductions.py \
    $(addprefix test_order.py::test_, a_scan_of_functions_composes_them_in_order the_order_of_a_scan_is_kept booleans_sort))
check-emulated: build
	@$(SHARED) $(FILL) KILN_BUILD=$(BUILD) PYTHONPATH=$(CURDIR)/$(BUILD)/python:$(CURDIR)/test $(VENV)/bin/python -m pytest \
	  -p no:cacheprovider -p emulator.plugin -n $(JOBS) -m "not fuzz" $(EMULATED)
	@$(SHARED) $(FILL) KILN_TARGET=sm_80 KILN_BUILD=$(BUILD) PYTHONPATH=$(CURDIR)/$(BUILD)/python:$(CURDIR)/test $(VENV)/bin/python -m pytest \
	  -p no:cacheprovider -p emulator.plugin -n $(JOBS) test/emulator/test_simple.py

check-fuzz: build
	@$(SHARED) KILN_BUILD=$(BUILD) KILN_FUZZ_PROGRAMS=$(FUZZ) KILN_FUZZ_MUTANTS=$(MUTANTS) KILN_FUZZ_SPECIALIZATIONS=$(SPECIALIZATIONS) \
	  $(PYTEST) -n $(JOBS) -m fuzz test/python
	@$(SHARED) KILN_BUILD=$(BUILD) KILN_FUZZ_JOBS=$(JOBS) KILN_FUZZ_LINES=$(CHANGED_LINES) PYTHONPATH=$(CURDIR)/$(BUILD)/python:$(CURDIR)/test \
	  $(VENV)/bin/python -m pytest -p no:cacheprovider -m fuzz test/emulator/test_mutants.py

docs-check: build
	@$(RUN) test/docs_check.py

# ---- form ------------------------------------------------------------------------------------------------------------
CXX_FILES = $(shell git ls-files '*.cpp' '*.h' '*.hpp' '*.c')
lint: setup
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@clang-format-$(LLVM) --dry-run -Werror $(CXX_FILES)

format: setup
	@$(VENV)/bin/ruff check --fix -q . ; $(VENV)/bin/ruff format -q .
	@clang-format-$(LLVM) -i $(CXX_FILES)

clean:
	rm -rf $(BUILD) dist
