# A real Kubernetes on this machine (docs/devcluster.md). NODES=0 is the control plane only; CLUSTER=name
# tells several clusters apart.
NODES ?= 2
export CLUSTER ?= default
DEVCLUSTER := $(BIN)/python -m devcluster

.PHONY: cluster-build cluster-up cluster-down cluster-status cluster-env

cluster-build: setup ## build Kubernetes without starting it (NODES=2), once per machine
	$(DEVCLUSTER) build --nodes $(NODES) >/dev/null

cluster-up: setup ## start a real Kubernetes here (NODES=2; 0 is the control plane only)
	$(DEVCLUSTER) up --nodes $(NODES)

cluster-down: setup ## stop it and remove all it wrote
	$(DEVCLUSTER) down

cluster-status: setup ## what of it runs
	$(DEVCLUSTER) status

cluster-env: setup ## for eval "$$(make -s cluster-env)": puts KUBECONFIG and kubectl in reach
	@$(DEVCLUSTER) env

.PHONY: e2e
e2e: setup ## run the tests that need nodes and real pods (root)
	$(BIN)/pytest tests/e2e
