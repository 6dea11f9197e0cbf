"""The node's content store: sealed trees, copy-on-write mounts of them, accounting, garbage collection."""
