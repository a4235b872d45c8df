# Every target works from nothing: it makes .venv and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml $(shell find csrc -type f)
CXX_FILES := $(shell find csrc -path csrc/third_party -prune -o \( -name '*.cc' -o -name '*.h' \) -print)

.PHONY: demo native test test-torch-matrix test-torch-oldest test-torch-newest test-jax-matrix \
	test-jax-sharding test-jax-oldest test-jax-newest test-derivatives test-ptx test-pages test-gpu sanitize-gpu lint fuzz fuzz-values \
	fuzz-short fuzz-derivatives fuzz-capsules fuzz-cache stress tsan asan maths bench bench-gpu bench-registers dist test-dist \
	docs docs-check clean

demo: $(VENV)/.built
	$(BIN)/python examples/01_tv_denoise.py

# Files as a whole go to a process: tests of a file share what takes long to make. Many start further
# Python processes, which take half the time where bytecode is kept.
test: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.built
	$(BIN)/python -m pytest -n 2 --dist loadfile tests

# Rebuild what a change in csrc affects, with ccache if it is installed.
native: export PATH := $(CURDIR)/$(BIN):$(PATH)
native:
	cmake -S csrc -B build/native -G Ninja -DCMAKE_BUILD_TYPE=Release -DKC_WARNINGS_ARE_ERRORS=ON \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	  -DCMAKE_CXX_COMPILER_LAUNCHER=$(notdir $(shell command -v ccache))
	cmake --build build/native
	cp --remove-destination build/native/_native*.so build/native/*.pyi kernelcore/

# Every kernel of tests/jax/matrix.py under every transformation, with JAX's own checks.
test-jax-matrix: export KC_JAX_MATRIX = whole
test-jax-matrix: export JAX_ENABLE_CHECKS = 1
test-jax-matrix: export XLA_FLAGS = --xla_force_host_platform_device_count=2
test-jax-matrix: $(VENV)/.built
	$(BIN)/python -m pytest -q -n 2 tests/jax/matrix_cases.py

# Every kernel of tests/jax/sharding_kernels.py and its derivatives on every mesh of eight devices.
test-jax-sharding: export KC_JAX_SHARDING = whole
test-jax-sharding: export XLA_FLAGS = --xla_force_host_platform_device_count=8
test-jax-sharding: $(VENV)/.built
	$(BIN)/python -m pytest -q -n 2 tests/jax/sharding_table.py

JAX_TESTS := tests/jax tests/native/test_xla.py tests/cuda/test_xla.py tests/cuda/test_xla_callbacks.py \
	tests/cuda/test_jax_arrays.py

# The JAX tests on the oldest version of JAX that is supported, with the same native module.
OLDEST := $(VENV)/oldest-jax
test-jax-oldest: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --upgrade --target $(OLDEST) 'jax==0.8.0' 'numpy<2.4'
	PYTHONPATH=$(OLDEST) $(BIN)/python -m pytest -q -n 2 $(JAX_TESTS)

# And on the newest one, which may need a newer Python than the rest, and so its own build.
NEWEST_PYTHON ?= python3.12
NEWEST := $(VENV)/newest-jax
test-jax-newest:
	$(NEWEST_PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade scikit-build-core nanobind ninja cmake jax
	$(NEWEST)/bin/python -m pip install --quiet --no-build-isolation -e '.[jax,dev]' pillow
	$(NEWEST)/bin/python -m pytest -q -n 2 $(JAX_TESTS)

# Long runs of random programs, in processes of limited size, since LLVM keeps memory of every
# module; KC_FUZZ_SEED chooses other programs.
fuzz: fuzz-values fuzz-derivatives

# Short programs from the seed FIRST on, by two processes; tests/fuzz/campaign.py lists the KINDs.
FIRST ?= 0
COUNT ?= 100000
KIND ?= values
fuzz-short: $(VENV)/.built
	$(BIN)/python -m tests.fuzz.campaign $(FIRST) $(COUNT) --processes 2 --kind $(KIND)

FUZZ_ROUNDS ?= 20
fuzz-values: export KC_FUZZ_PROGRAMS = 1000
fuzz-values: $(VENV)/.built
	@for round in $$(seq $(FUZZ_ROUNDS)); do \
	  KC_FUZZ_SEED=$$(( $${KC_FUZZ_SEED:-0} + round )) \
	  $(BIN)/python -m pytest -q -n 2 tests/fuzz/test_typed_programs.py tests/fuzz/test_gangs.py \
	    || exit 1; \
	done

# 100 programs in a round, 20 of them of composites. Optimising them would take most of the time.
FUZZ_DERIVATIVE_ROUNDS ?= 60
fuzz-derivatives: export KC_OPTIMIZE = 0
fuzz-derivatives: $(VENV)/.built
	@for round in $$(seq $(FUZZ_DERIVATIVE_ROUNDS)); do \
	  for run in 80:test_programs 20:test_composite_programs; do \
	    KC_FUZZ_PROGRAMS=$${run%%:*} KC_FUZZ_SEED=$$(( $${KC_FUZZ_SEED:-0} + 100 * round )) \
	    $(BIN)/python -m pytest -q -n 2 tests/fuzz/$${run#*:}.py || exit 1; \
	  done; \
	done

# Derivatives of every pattern in JAX, to third order, and in torch, to second order.
test-derivatives: export KC_DERIVATIVE_ORDER = 3
test-derivatives: $(VENV)/.built
	$(BIN)/python -m pytest -q -n 2 tests/jax/test_patterns.py tests/torch/test_patterns.py

# The elementary functions of float32 on each of its 2**32 values; 2 to 5 minutes a function.
maths: export KC_EVERY_FLOAT32 = 1
maths: $(VENV)/.built
	$(BIN)/python -m pytest -q -s -n 2 tests/builtins/test_maths_accuracy.py -k all_float32

# Every kernel of the matrix under every transform in every mode of torch.compile; CI runs a slice.
test-torch-matrix: export KC_TORCH_MATRIX = 1
test-torch-matrix: $(VENV)/.built
	$(BIN)/python -m pytest -q -n 2 tests/torch/test_matrix.py

TORCH_TESTS := tests/torch tests/native/test_torch.py tests/cuda/test_torch.py tests/cuda/test_torch_streams.py

# The torch tests on the oldest torch that is supported, with the same native module; it needs 7 GB,
# since older wheels for Linux bring CUDA along.
OLDEST_TORCH := $(VENV)/oldest-torch
test-torch-oldest: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --upgrade --target $(OLDEST_TORCH) torch==2.10.0 'numpy<2.4'
	PYTHONPATH=$(OLDEST_TORCH) $(BIN)/python -m pytest -q -n 2 $(TORCH_TESTS)

# And on the newest one, which is as large.
NEWEST_TORCH := $(VENV)/newest-torch
test-torch-newest: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --upgrade --target $(NEWEST_TORCH) torch 'numpy<2.4'
	PYTHONPATH=$(NEWEST_TORCH) $(BIN)/python -m pytest -q -n 2 $(TORCH_TESTS)

# Device code: all kernels and their derivatives through NVIDIA's assembler, and on this processor.
test-ptx: export KC_PTX_ALL = 1
test-ptx: $(VENV)/.built
	$(BIN)/python -m pip install --quiet 'nvidia-cuda-nvrtc==13.*'
	$(BIN)/python -m pytest -q -rP tests/codegen/gpu/test_ptx.py tests/device tests/device/nvrtc_cases.py

# The suites and figures on a GPU, see docs/internals/gpu.md. They take $(GPU_PYTHON) as it is and install nothing.
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
test-gpu:
	$(GPU_PYTHON) -m tests.gpu $(GPU_ARGS)

# Memory and races: sums of blocks, which use shared memory, and loops, whose adjoints use the heap.
SANITIZER ?= $(or $(shell command -v compute-sanitizer),/usr/local/cuda/bin/compute-sanitizer)
sanitize-gpu: export KC_GPU_PARTS = code
sanitize-gpu:
	@test -x "$(SANITIZER)" || { echo "sanitize-gpu: no compute-sanitizer of the CUDA toolkit: \
	give SANITIZER=path" >&2; exit 2; }
	for tool in memcheck racecheck; do \
	  $(SANITIZER) --target-processes all --tool $$tool --error-exitcode 9 \
	    $(GPU_PYTHON) -m tests.gpu -k 'test_sums or while' || exit 1; \
	done

bench-gpu:
	$(GPU_PYTHON) -m tests.bench.bench_gpu

# Registers of the benchmark's kernels against nvcc, which must be on the PATH; needs no GPU.
bench-registers: $(VENV)/.built
	$(BIN)/python -m tests.bench.bench_registers

# The page of kc.explain in Chromium, which Qt brings along as a package of 130 MB.
PAGES := $(VENV)/pages
test-pages: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --upgrade --target $(PAGES) PyQt6-WebEngine
	$(BIN)/python -m tests.explain.page output/explain.html
	PYTHONPATH=$(PAGES) QT_QPA_PLATFORM=offscreen $(BIN)/python -m tests.explain.browser \
	  output/explain.html output/explain.png

# Malformed DLPack capsules and array interfaces.
fuzz-capsules: export KC_FUZZ_CAPSULES ?= 200000
fuzz-capsules: $(VENV)/.built
	$(BIN)/python -m pytest -q tests/fuzz/test_capsules.py

# Damaged entries of the disk cache, and processes on one cache that are killed at random.
fuzz-cache: export KC_FUZZ_ENTRIES ?= 100000
fuzz-cache: $(VENV)/.built
	$(BIN)/python -m pytest -q tests/fuzz/test_cache_entries.py
	$(BIN)/python -m tests.fuzz.test_cache_kills --processes 24 --seconds 180

# Launches from several threads, interrupts and the registry; under ThreadSanitizer: tsan.
CORE := accumulate/accumulated_copy accumulate/accumulating_run accumulate/commit_sequences accumulate/own_elements launch_descriptor \
	loader/registry memory/aliasing memory/copy run/chunk_size run/chunked_run run/cpu_limit run/interrupt run/launch run/operand_windows \
	run/packed_layout run/pool run/sharing
tsan: STRESS_FLAGS = -g -fsanitize=thread
tsan stress:
	mkdir -p build
	$(CXX) -std=c++20 -O1 $(STRESS_FLAGS) -Wall -Wextra -Icsrc -Icsrc/include \
	  tests/native/stress.cc $(CORE:%=csrc/core/%.cc) -pthread -o build/$@
	build/$@

# The native module under AddressSanitizer and UndefinedBehaviorSanitizer. Its tests run in a copy of
# the sources, with an interpreter that finds the packages of $(VENV) but not its installed module.
# Functions of other libraries are never far away there, and the stress test has its own program.
# Paddle looks for its libraries in the packages of the interpreter that runs, which are elsewhere.
# A report goes to standard error, which pytest must not capture, because the process ends at once.
ASAN := build/asan
ASAN_TREE := $(ASAN)/tree
ASAN_TESTS ?= tests/native tests/interchange tests/launch tests/autograd/test_tape.py tests/fuzz/test_capsules.py \
	tests/fuzz/test_operand_windows.py tests/operators/test_operand_strides.py \
	tests/torch/test_gradient.py tests/torch/test_lent_memory.py tests/jax/test_calls.py tests/jax/test_callback.py
ASAN_FLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
asan: export PATH := $(CURDIR)/$(BIN):$(PATH)
asan: export PYTHONMALLOC = malloc
asan: export ASAN_OPTIONS = detect_leaks=0:alloc_dealloc_mismatch=0:allocator_may_return_null=1
asan: export UBSAN_OPTIONS = print_stacktrace=1
asan: $(VENV)/.built
	cmake -S csrc -B $(ASAN) -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DCMAKE_CXX_FLAGS="$(ASAN_FLAGS)" \
	  -DCMAKE_CXX_COMPILER_LAUNCHER=$(notdir $(shell command -v ccache))
	cmake --build $(ASAN) --target _native
	rm -rf $(ASAN_TREE)
	mkdir -p $(ASAN_TREE)
	git ls-files -z | xargs -0 cp --parents -t $(ASAN_TREE)
	cp $(ASAN)/_native*.so $(ASAN_TREE)/kernelcore/
	$(BIN)/python -m venv --without-pip $(ASAN_TREE)/venv
	$(BIN)/python -c "import site; print('$(CURDIR)/$(ASAN_TREE)', *site.getsitepackages(), sep='\n')" \
	  > $$(ls -d $(ASAN_TREE)/venv/lib/python*/site-packages)/paths.pth
	cd $(ASAN_TREE) && LD_LIBRARY_PATH="$$(ls -d $(CURDIR)/$(VENV)/lib/python*/site-packages/paddle/libs)" \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) \
	  $$($(CXX) -print-file-name=libubsan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  venv/bin/python -m pytest -q -p no:cacheprovider --capture=sys $(ASAN_TESTS) \
	  --deselect tests/native/test_loader.py::test_calls_reach_functions_that_are_far_away \
	  --ignore tests/native/test_stress.py

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/pyright

bench: $(VENV)/.bench
	$(BIN)/python -m tests.bench.run

# The site, with the pictures of the gallery, in build/docs/html.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -b html -W --keep-going --fresh-env docs build/docs/html

# Opens its pages in Chromium, which Qt brings along, follows their links, and keeps pictures.
docs-check: docs
	$(BIN)/python -m pip install --quiet --upgrade --target $(PAGES) PyQt6-WebEngine
	$(BIN)/python -m tests.site.links build/docs/html
	PYTHONPATH=$(PAGES) QT_QPA_PLATFORM=offscreen $(BIN)/python -m tests.site.pictures build/docs/html output/site

# An sdist, and wheels from it for old versions of glibc: one for Python 3.11, and one with the stable
# ABI for 3.12 and newer.
DIST := $(VENV)/dist
dist:
	$(PYTHON) -m venv $(DIST)
	$(DIST)/bin/python -m pip install --quiet --upgrade $$($(PYTHON) tools/make_dist.py --requirements)
	$(DIST)/bin/python tools/make_dist.py dist

# Installs these wheels in fresh environments: with NumPy alone, then with each framework.
test-dist:
	$(PYTHON) tests/packaging/install.py dist

clean:
	rm -rf $(VENV) build output

# torch and Paddle come first and by exact version, so that no later requirement chooses another
# build.
$(VENV)/.frameworks:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet paddlepaddle==3.3.1
	$(BIN)/python -m pip install --quiet scikit-build-core nanobind ninja cmake
	touch $@

$(VENV)/.built: $(VENV)/.frameworks $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation -C cmake.define.KC_WARNINGS_ARE_ERRORS=ON \
	  -e '.[torch,jax,paddle,examples,dev]'
	touch $@

$(VENV)/.docs: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --no-build-isolation -C cmake.define.KC_WARNINGS_ARE_ERRORS=ON \
	  -e '.[torch,jax,paddle,examples,dev,docs]'
	touch $@

$(VENV)/.bench: $(VENV)/.built
	$(BIN)/python -m pip install --quiet --no-build-isolation -C cmake.define.KC_WARNINGS_ARE_ERRORS=ON \
	  -e '.[torch,jax,paddle,examples,dev,bench]'
	touch $@
