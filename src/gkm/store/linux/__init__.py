"""System calls that Python does not offer, one module for each kernel facility. Linux only.

Nothing here knows of caches or of the store: names, flags and errors are the kernel's.
"""
