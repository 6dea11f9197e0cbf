"""The custom resources of `gkm.io/v1alpha1` as typed structs, their names, and the CRDs made from them.

Data and nothing else: what a cache, a node report or a grant *says* stands here, what is done about it in the
rooms above. Imports only the standard library and msgspec (PyYAML when the CRDs are generated).
"""
