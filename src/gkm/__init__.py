"""GKM, the GPU Kernel Manager.

cache directory → cache image → verified digest → sealed tree on a node → copy-on-write mount → hit.
The rooms of this package and what each is for: `docs/map.md`.
"""

__version__ = "0.1.0"
