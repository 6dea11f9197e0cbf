"""A real Kubernetes on one machine, for demos and tests (docs/devcluster.md).

Not part of the `gkm` package and not installed with it: ``python -m devcluster`` from the repository's root,
the make targets in ``devcluster.mk`` and the fixtures in ``tests/support/devcluster.py`` are its three doors.
"""
