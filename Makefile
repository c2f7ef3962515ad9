# Everything a developer does here, by name. `make help` lists it.
.DEFAULT_GOAL := help
.PHONY: help setup control-plane run test test-all test-1.37 test-node test-peers image fast properties fuzz mutants mutants-server check format bench bench-openb bench-jct calibrate lock manifests live-view clean
VENV := .venv/bin

help: ## list the commands
	@grep -E '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9.-]+):.*## /\1\t/' | expand -t 16

setup: ## make .venv with every locked package (nothing else is needed first)
	@scripts/venv.sh

control-plane: setup ## build the real kube-apiserver, etcd & co. once, into a cache directory
	@$(VENV)/python controlplane/build.py --with kwok

run: ## a whole simulated GPU cluster with a live view (ARGS="--nodes 30" to change it)
	@scripts/venv.sh run
	@$(VENV)/fairlead up $(ARGS)

test: setup ## the tests, on a real kube-apiserver and etcd (ARGS="-k queue", LAST_FAILED=1)
	@$(VENV)/python -m scripts.suite test $(ARGS)

test-all: setup ## every test, in parts; some on Kubernetes 1.37 as well (ARGS=oracle for one part)
	@$(VENV)/python -m scripts.suite all $(ARGS)

test-1.37: setup ## the tests that need a kube-apiserver, on one of Kubernetes 1.37 (ARGS="-k oracle")
	@$(VENV)/python controlplane/build.py --kubernetes 1.37 --with helm,prometheus
	@FAIRLEAD_KUBERNETES=1.37 $(VENV)/python -m pytest -n3 --dist loadfile -q -m server $(ARGS)

test-node: setup ## containers on a real kubelet and containerd, in namespaces of their own (root, Linux; ARGS="-k upgrade")
	@$(VENV)/python scripts/test_node.py $(ARGS)

test-peers: setup ## controllers of Volcano, KAI and others beside Fairlead; builds them first (ARGS="-k volcano")
	@$(VENV)/python scripts/test_peers.py $(ARGS)

image: setup ## build the image of deploy/Dockerfile, with docker, podman or buildah, or without a registry
	@$(VENV)/python controlplane/image.py

fast: setup ## the tests that start no server and no program (a minute and a half)
	@$(VENV)/python -m scripts.suite fast $(ARGS)

properties: setup ## the property tests with examples drawn at random, to find what make test does not (ARGS="-k ledger")
	@$(VENV)/python -m pytest -m "not server and not program" -q --hypothesis-profile=random $(ARGS)

fuzz: setup ## more mutated objects, in this process and on a real kube-apiserver (SEED=7 FOR=600, seconds for each test)
	@$(VENV)/python controlplane/build.py
	@FUZZ_SEED=$(or $(SEED),2) FUZZ_FOR=$(or $(FOR),60) $(VENV)/python -m pytest -q -x -s tests/fuzz tests/e2e/test_fuzz*.py

mutants: setup ## 300 small faults put into src, one by one: does a plain test notice? (ARGS="--area gangs")
	@$(VENV)/python scripts/mutants.py plain $(ARGS)

mutants-server: setup ## those still alive, with the server tests that come to them, at most 4 minutes each
	@$(VENV)/python controlplane/build.py --with helm,prometheus,device-cel,dra-allocator,dra-allocator-1.37
	@$(VENV)/python scripts/mutants.py server $(ARGS)

check: setup ## format, lint, types, layers
	@$(VENV)/ruff format --check .
	@$(VENV)/ruff check .
	@$(VENV)/mypy
	@$(VENV)/lint-imports

format: setup ## put the code in shape
	@$(VENV)/ruff format .
	@$(VENV)/ruff check --fix .

bench: setup ## engine, drain and shapes beside kube-scheduler, restart, failover, embedded server, GPUs (BENCH=large)
	@$(VENV)/python controlplane/build.py
	@$(VENV)/python bench/engine.py --out bench/results/engine.json
	@$(VENV)/python bench/start.py
	@$(VENV)/python bench/drain.py
	@$(VENV)/python bench/shapes.py $(if $(filter large,$(BENCH)),,--quick)
	@$(VENV)/python bench/gangs_live.py
	@$(VENV)/python bench/restart.py
	@$(VENV)/python bench/failover.py
	@$(VENV)/python bench/embedded_server.py
	@$(VENV)/python bench/links.py
	@$(VENV)/python bench/gang_topology.py
	@$(VENV)/python bench/mig.py
	@$(VENV)/python bench/admission.py
	@$(VENV)/python bench/telemetry.py

bench-openb: setup ## how many GPUs each policy allocates on the openb traces (DATA=folder OUT=file ARGS=…)
	@$(VENV)/python bench/openb.py $(or $(DATA),../shared/data/openb) $(if $(OUT),--out $(OUT)) $(ARGS)

bench-jct: setup ## completion times and waits on the Muri and Philly traces (DATA=folder OUT=file ARGS=…)
	@$(VENV)/python bench/jct.py $(or $(DATA),../shared/data) $(if $(OUT),--out $(OUT)) $(ARGS)

calibrate: setup ## the simulator against published figures of the Muri traces (DATA=folder)
	@$(VENV)/python bench/calibration.py $(or $(DATA),../shared/data)

lock: ## renew the lock files from pyproject.toml (needs uv)
	@uv pip compile --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 -q pyproject.toml -o requirements-run.lock
	@uv pip compile --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 -q --extra agent pyproject.toml -o requirements.lock
	@uv pip compile --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 -q --extra dev pyproject.toml -o requirements-dev.lock

manifests: setup ## render the plain manifests in deploy/ from the chart
	@$(VENV)/python scripts/manifests.py "$$($(VENV)/python controlplane/build.py helm | tail -n 1)/helm"

live-view: setup ## draw docs/live-view.svg from one minute of fairlead up
	@$(VENV)/python scripts/live_view.py docs/live-view.svg

clean: ## remove what the commands above made in this directory
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info src/*.egg-info
