.PHONY: bench-kube
bench-kube: setup ## sync of 10 000 Pods against the official client, kr8s and kopf (they are installed aside)
	PYTHONPATH=tests:. $(BIN)/python benchmarks/kube/run.py
