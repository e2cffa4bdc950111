# Two commands: `make demo` and `make test`. Both set everything up: .venv, pinned dependencies, the native build.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SOURCES := $(shell find native -name '*.cpp' -o -name '*.hpp' -o -name CMakeLists.txt) \
	CMakeLists.txt pyproject.toml constraints.txt plugins/recsys/pyproject.toml
TRACKING := sqlite:///$(CURDIR)/runs/mlflow.db
TRAIN := $(BIN)/sb3-webscale train --experiment demo --tracking-uri $(TRACKING)

export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONPATH PYTHONHOME

.PHONY: install demo test test-python test-native test-sanitizers lint format bench clean

install: $(INSTALLED)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "Python 3.10 or newer is needed; say which with make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(BIN)/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	$(BIN)/python -m pip install --quiet -c constraints.txt scikit-build-core pybind11 cmake ninja hatchling editables
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-build-isolation -e ".[dev]" -e plugins/recsys
	@touch $@

# The main path on real data, then a swapped buffer against itself: uniform and prioritized.
demo: $(INSTALLED)
	$(TRAIN) --config zoo/recsys/dqn.yml --run-name "recsys: history + online"
	$(TRAIN) --config zoo/cartpole/dqn_uniform.yml --run-name "CartPole: uniform"
	$(TRAIN) --config zoo/cartpole/dqn_prioritized.yml --run-name "CartPole: prioritized"
	$(BIN)/sb3-webscale runs list --experiment demo --tracking-uri $(TRACKING)
	@echo "Compare the runs:        $(BIN)/mlflow ui --backend-store-uri $(TRACKING)"
	@echo "Re-run one of them:      $(BIN)/sb3-webscale reproduce RUN_ID --tracking-uri $(TRACKING)"

test: test-native test-sanitizers test-python

test-python: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-native: $(INSTALLED)
	$(BIN)/cmake -S . -B build/native -G Ninja -DWEBSCALE_BUILD_PYTHON=OFF -DWEBSCALE_BUILD_TESTS=ON > /dev/null
	$(BIN)/cmake --build build/native
	$(BIN)/ctest --test-dir build/native --output-on-failure

test-sanitizers: $(INSTALLED)
	for sanitizer in address,undefined thread; do \
		$(BIN)/cmake -S . -B build/native-$$sanitizer -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
			-DWEBSCALE_BUILD_PYTHON=OFF -DWEBSCALE_BUILD_TESTS=ON -DWEBSCALE_SANITIZE=$$sanitizer > /dev/null && \
		$(BIN)/cmake --build build/native-$$sanitizer && \
		$(BIN)/ctest --test-dir build/native-$$sanitizer --output-on-failure || exit 1; \
	done

lint: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# Memory and speed against the peers, among them every figure that the README claims; ARGS=--quick for a first look.
bench: $(INSTALLED)
	$(BIN)/python -m pip install --quiet -c constraints.txt cpprb matplotlib
	$(BIN)/python zoo/benchmarks/memory.py $(ARGS)
	$(BIN)/python zoo/benchmarks/replay.py $(ARGS)
	$(BIN)/python zoo/benchmarks/growth.py $(ARGS) --plot runs/benchmarks/growth.png

clean:
	rm -rf build runs $(VENV)
