# What the run is told: BENCH_AGENT="--rounds 3", or a part alone: BENCH_AGENT=calls.
BENCH_AGENT ?=

.PHONY: bench-agent
bench-agent: setup images ## pods' starts with a cache beside emptyDir and image volumes, the agent's costs (root)
	PYTHONPATH=tests:. $(BIN)/python benchmarks/agent/run.py $(BENCH_AGENT)
