.PHONY: bench-agent
bench-agent: setup images ## how fast pods start with a cache, beside emptyDir and image volumes; the agent's costs (root)
	PYTHONPATH=tests:. $(BIN)/python benchmarks/agent/run.py
