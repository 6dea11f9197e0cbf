"""Kernel caches on disk: recognise and read them, relocate them, judge them against GPUs.

Parsing only. Nothing from a cache is ever unpickled, imported or executed: a cache is code from elsewhere.
"""
