# Installing GKM (docs/install.md). OVERLAY=default, kind or simulated-gpu; IMAGES and TAG say which images.
OVERLAY ?= default
IMAGES ?= gkm.test
TAG ?= dev
KUBECTL ?= kubectl
# What run-on-devcluster pushed last.
CACHE_IMAGE ?= $(shell cat build/devcluster/cache-image 2>/dev/null)
RENDER = $(KUBECTL) kustomize deploy/overlays/$(OVERLAY) \
    | sed -E 's,gkm\.test/(gkm-operator|gkm-agent):dev,$(IMAGES)/\1:$(TAG),'

.PHONY: images deploy undeploy undeploy-force deploy-examples undeploy-examples run-on-devcluster

images: setup ## build the images of operator and agent as archives in build/images (IMAGES=… TAG=…)
	tools/system-packages mmdebstrap:mmdebstrap buildah:buildah
	for image in gkm-operator gkm-agent; do \
	    deploy/images/build $$image $(IMAGES)/$$image:$(TAG) build/images/$$image.tar || exit; done

deploy: ## install GKM on the cluster that kubectl talks to (OVERLAY=default)
	$(RENDER) | $(KUBECTL) apply --server-side --force-conflicts -f -
	$(KUBECTL) -n gkm-system rollout status deployment/gkm-operator --timeout 180s
	$(KUBECTL) -n gkm-system rollout status daemonset/gkm-agent --timeout 180s

undeploy: ## remove GKM; refuses while caches exist, for pods may use them
	KUBECTL="$(KUBECTL)" OVERLAY=$(OVERLAY) deploy/undeploy

undeploy-force: ## remove GKM with every cache; says what stays behind on nodes
	KUBECTL="$(KUBECTL)" OVERLAY=$(OVERLAY) deploy/undeploy --force

deploy-examples: ## start the example pods and wait until their caches are in use (CACHE_IMAGE=HOST/REPO:TAG)
	KUBECTL="$(KUBECTL)" examples/cluster/run up $(CACHE_IMAGE)

undeploy-examples: ## remove the example pods and caches
	KUBECTL="$(KUBECTL)" examples/cluster/run down

run-on-devcluster: cluster-up images ## a cluster on this machine with GKM and a registry in it (needs root)
	deploy/devcluster-install

# What is made from code here, beside what the Makefile itself makes.
generate: generate-deploy
check-generated: check-deploy

.PHONY: generate-deploy check-deploy
generate-deploy: setup ## of `generate`: rights and configuration of the install
	$(BIN)/python tools/rbac.py
	$(BIN)/python tools/deploy_config.py

check-deploy: setup ## of `check-generated`: the same
	$(BIN)/python tools/rbac.py --check
	$(BIN)/python tools/deploy_config.py --check
