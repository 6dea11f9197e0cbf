"""Whose cache images count: the gate that every digest passes before nodes may have it."""
