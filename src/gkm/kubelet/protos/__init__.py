"""Vendored ``.proto`` files and what is generated from them; ``tools/protos`` has their pins and writes them."""
