"""Kubeconfig files that hold all they need, so that one can be copied anywhere on the machine."""

import base64
import json
from pathlib import Path

from devcluster.pki import Pair
from gkm.base.files import write_atomic


def write(path: Path, *, cluster: str, server: str, authority: Path, user: str, pair: Pair) -> Path:
    """Write a kubeconfig in which `user` speaks to `server` with a client certificate. JSON is YAML."""
    context = f"gkm-devcluster-{cluster}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [
            {"name": context, "cluster": {"server": server, "certificate-authority-data": _b64(authority)}}
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _b64(pair.certificate),
                    "client-key-data": _b64(pair.key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
    }
    write_atomic(path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)
    return path


def _b64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
