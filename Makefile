# Every target sets up what it needs. `make` alone lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.stamp-$(shell sha256sum pyproject.toml requirements.lock 2>/dev/null | sha256sum | cut -c1-16)
BIN := $(CURDIR)/$(VENV)/bin
# Each has a control plane of its own where its tests need one: about 600 MiB.
WORKERS ?= 2

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z][a-z0-9-]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "GKM needs python3 >= 3.11; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	rm -f $(VENV)/.stamp-*
	touch $@

.PHONY: setup
setup: $(STAMP) ## make .venv with the gkm command and all development tools, from the lock file

.PHONY: lock
lock: ## resolve pyproject.toml again into requirements.lock (needs uv)
	uv pip compile pyproject.toml --all-extras --group dev --universal --python-version 3.11 --generate-hashes \
	    --no-header --no-emit-index-url --no-annotate --quiet --output-file requirements.lock

.PHONY: check
check: setup check-generated ## lint, format, types, layers, drift of generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

.PHONY: fix
fix: setup ## apply the formatter and the linter's safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: system-packages
system-packages: ## install the programs that tests and demo use as real counterparts (as root, on Debian)
	tools/system-packages docker-registry:docker-registry skopeo:skopeo umoci:umoci buildah:buildah \
	    qemu-x86_64:qemu-user cc:gcc openssl:openssl mkfs.ext4:e2fsprogs mmdebstrap:mmdebstrap

.PHONY: test
test: setup system-packages ## run the tests that need no node: unit, fault, integration (WORKERS=2)
	-$(DEVCLUSTER) build --nodes 0 >/dev/null
	$(BIN)/pytest --ignore=tests/e2e --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: bench-run
bench-run: setup ## cold start against copied, delivered and in-place caches, as ratios in one run
	$(BIN)/python benchmarks/relocation.py

.PHONY: generate
generate: setup ## write the files that are made from the code: CRDs, references, protos
	$(BIN)/python -m gkm.api.generate
	$(BIN)/python tools/cli_reference.py
	$(BIN)/python tools/protos.py

.PHONY: check-generated
check-generated: setup ## fail where a generated file is not what the code gives
	$(BIN)/python -m gkm.api.generate --check
	$(BIN)/python tools/cli_reference.py --check
	$(BIN)/python tools/protos.py --check

.PHONY: demo
demo: setup ## the main job on this machine: compile, pack, carry, mount elsewhere, hit
	@tools/system-packages docker-registry:docker-registry
	@$(BIN)/gkm demo

include benchmarks/agent/agent.mk
include benchmarks/kube/kube.mk
include devcluster/devcluster.mk
include deploy/deploy.mk
