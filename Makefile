# Thin on purpose: every target calls a script or a CMake preset. `make help` lists them.
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
RELEASE := build/release

.PHONY: help demo demo-device build test check wheel mpi package test-aarch64 test-threads test-python test-interop test-suite test-upstream inspector-tables test-browser web test-web random fuzz conformance quantization lint format bench calibrate golden anchors mutants docs

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

demo: build ## install what is missing, build, compile digits_cnn and run its test images on the simulated NPU
	@scripts/demo

demo-device: build ## the keyword model as firmware: ten recorded words under QEMU, Cortex-M33 with the NPU (installs the Arm compiler and QEMU)
	@scripts/setup device
	@scripts/demo_device

build: ## install what is missing and build the command, build/release/deuteron
	@scripts/setup build
	@test -f $(RELEASE)/build.ninja || cmake --preset release -DDTR_BUILD_TESTS=OFF -DDTR_BUILD_BENCH=OFF
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron deuteron-opt

test: ## the same set-up, then every test: unit tests under the sanitizers, all others also without
	@scripts/setup test
	@scripts/run_tests -j $(JOBS) release asan

check: ## every test of the release build only, for the daily loop
	@scripts/setup test
	@scripts/run_tests -j $(JOBS) release

N ?= 100000
random: ## all executors on N random graphs (100000), or the smallest one on which they disagree
	@scripts/setup test
	@cmake --preset release -DDTR_BUILD_TESTS=ON >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron-random
	@$(RELEASE)/deuteron-random --count $(N) --jobs $(JOBS)

HOURS ?= 1
fuzz: ## libFuzzer over all targets for HOURS CPU-hours (1): new corpus entries, crashes and the ledger are kept (docs/fuzzing.md)
	@scripts/setup test
	@scripts/fuzz --hours $(HOURS) --jobs $(JOBS)

wheel: ## the Python package as a wheel, dist/*.whl, tried in an environment of its own (downloads nanobind, scikit-build-core, auditwheel)
	@scripts/setup python
	@scripts/wheel
	@test/python/try_wheel dist/*.whl

mpi: ## the command for clusters, build/release/deuteron-mpi (installs Open MPI; docs/scale.md)
	@scripts/setup mpi
	@cmake --preset release -DDTR_MPI=ON >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron-mpi

test-aarch64: ## the simulator's tests for 64-bit Arm under QEMU, whose results must be those of this machine (installs a compiler and QEMU)
	@scripts/setup aarch64
	@scripts/test_aarch64 -j $(JOBS)

test-threads: ## the command's threads under ThreadSanitizer, which compiles everything again
	@scripts/setup test
	@scripts/test_threads -j $(JOBS)

package: ## Debian packages of the commands, build/release/packages/deuteron*.deb; deuteron-mpi alone depends on MPI
	@scripts/setup mpi
	@cmake --preset release -DDTR_MPI=ON >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron deuteron-opt deuteron-executor-runner deuteron-mpi
	@cd $(RELEASE) && cpack

test-python: ## every test of the Python package, PyTorch and the notebooks included (own environment, downloads PyTorch; ARGS=--asan)
	@scripts/setup test
	@test/python/run_all -j $(JOBS) $(ARGS)

test-interop: ## live comparison with ExecuTorch 1.4 in both directions (own Python environment, downloads PyTorch and ExecuTorch)
	@scripts/setup test
	@cmake --preset release -DDTR_BUILD_TESTS=ON >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron deuteron-neutron-ir
	@test/interop/run $(RELEASE)/deuteron

test-suite: build ## ExecuTorch's operator tests for any backend on Deuteron, 3 minutes; writes docs/backend_suite.md
	@test/upstream/run_suite $(RELEASE)

SAMPLE ?= 0
test-upstream: build ## the NXP tests of ExecuTorch's wheel on Deuteron, for hours; writes docs/upstream.md (SAMPLE=150: some of them, writes nothing)
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron-executor-runner
	@test/upstream/run $(RELEASE) --sample $(SAMPLE) --jobs $(JOBS)

inspector-tables: build ## accept what ExecuTorch's Inspector says of runs now (test/data/inspector), after a change of map or cycles
	@test/interop/run $(RELEASE)/deuteron --write-tables

test-browser: build ## HTML reports of profiles used with clicks and keys in headless Chromium
	@scripts/setup browser
	@test/browser/run $(RELEASE)/deuteron

web: ## the compiler as one page that opens from disk, build/web/deuteron.html (downloads Emscripten and sources of Debian; docs/web.md)
	@scripts/setup web
	@test -f build/web/build.ninja || cmake --preset web
	@cmake --build build/web -j $(JOBS) --target page

test-web: web ## that page in headless Chromium: programs byte by byte, damaged files, keyboard, narrow windows, time and size
	@scripts/setup browser
	@cmake --preset release -DDTR_BUILD_TESTS=ON >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron-without-onednn
	@test/web/run build/web $(RELEASE)/deuteron-without-onednn

conformance: ## every case of the full set (DEUTERON_SHARED) against PyTorch, upstream and TFLite; writes docs/conformance.md
	@scripts/setup test
	@cmake --preset release -DDTR_BUILD_TESTS=ON >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron-conformance
	@DEUTERON_SHARED=$${DEUTERON_SHARED:-$(wildcard ../shared)} $(RELEASE)/deuteron-conformance --jobs $(JOBS) --markdown docs/conformance.md

quantization: ## quantized models against PyTorch and the time of the passes; writes docs/quantization_results.md from the full set (DEUTERON_SHARED)
	@scripts/setup test
	@cmake --preset release -DDTR_BUILD_TESTS=ON >/dev/null
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron deuteron-opt deuteron-conformance
	@python3 bench/quantization.py

lint: ## clang-tidy on every source
	@scripts/setup test
	@scripts/lint -j $(JOBS)

format: ## clang-format all sources in place
	@scripts/format

bench: ## measure everything, and write docs/performance.md: a quiet machine, a committed tree
	@scripts/setup test
	@cmake --preset release -DDTR_BUILD_TESTS=ON -DDTR_BUILD_BENCH=ON
	@cmake --build $(RELEASE) -j $(JOBS) --target deuteron bench
	@python3 bench/run.py

calibrate: build ## the machine model against published latencies; writes the table of docs/npu.md
	@python3 bench/calibrate.py

golden: build ## accept the figures of test/golden as they are now
	@python3 test/golden/golden.py $(RELEASE)/deuteron --update

anchors: ## measure the peers again (own Python environment, downloads PyTorch, ExecuTorch, LiteRT)
	@bench/measure_anchors

mutants: ## put each mistake of test/mutants into a scratch copy and run the test that must find it (ARGS='--only N1,S5', --area, --list, --record)
	@scripts/setup test
	@python3 test/mutants/run.py --jobs $(JOBS) $(ARGS)

docs: build ## write the generated pages of docs/
	@scripts/generate_docs
