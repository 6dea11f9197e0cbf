"""Cache images as OCI artefacts: references, registries and layout directories, packing, safe unpacking.

Knows bytes, digests, layers and labels; what a kernel is, it never asks.
"""
