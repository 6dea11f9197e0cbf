"""The node side: which caches belong on this node, staging them, and reporting.

Grants and this node's pods come in through `gkm.kube`; foreign bytes are touched by `gkm-extract` alone, a
child without privileges. What pods are given is decided here, and mounted elsewhere. Not a second store.
"""
