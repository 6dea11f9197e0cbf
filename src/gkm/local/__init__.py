"""The main job on one machine, without Kubernetes: pack, stage, mount, run, report, capture."""
