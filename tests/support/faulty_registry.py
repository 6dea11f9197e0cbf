"""A pod in front of the cluster's registry that damages what it hands on, or takes for ever: for faults alone."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from support.devcluster import Cluster
from support.installed import apply

Fault = Literal["damaged", "slow"]

_NAME = "faulty-registry"
_SELECTOR = '{"spec":{"selector":{"app.kubernetes.io/name":"%s"}}}'

# Layers are told by how compressed streams begin: manifests and configurations arrive as they are.
_PROGRAM = """
import http.client, http.server, json, sys, threading
upstream, faults, mended = sys.argv[1], {}, threading.Condition()

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        with mended:
            faults.clear()
            faults.update(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            mended.notify_all()
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        connection = http.client.HTTPConnection(upstream, 5000, timeout=30)
        names = ("accept", "range")
        connection.request(self.command, self.path, headers={n: self.headers[n] for n in names if n in self.headers})
        answer = connection.getresponse()
        body = answer.read()
        repository = self.path.removeprefix("/v2/").partition("/blobs/")[0]
        layer = body[:4] == b"\\x28\\xb5\\x2f\\xfd" or body[:2] == b"\\x1f\\x8b"
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        if layer and faults.get(repository) == "damaged":
            body = body[:-1] + bytes([body[-1] ^ 1])
        while body and layer and faults.get(repository) == "slow":
            self.wfile.write(body[:1])
            self.wfile.flush()
            body = body[1:]
            with mended:
                mended.wait(1)
        self.wfile.write(body)

    do_HEAD = do_GET

http.server.ThreadingHTTPServer(("", 5000), Handler).serve_forever()
"""


@dataclass
class FaultyRegistry:
    """What everybody reaches under the registry's address, until the block ends."""

    cluster: Cluster
    _control: str

    def set(self, **faults: Fault) -> None:
        """From now on, and for answers under way, layers of these repositories (of ``kernels/``) have a fault, and
        no others."""
        body = json.dumps({f"kernels/{name}": fault for name, fault in faults.items()}).encode()
        urllib.request.urlopen(urllib.request.Request(self._control, body, method="PUT"), timeout=30).close()


@contextmanager
def faulty_registry(cluster: Cluster) -> Iterator[FaultyRegistry]:
    """Stand between the cluster's registry and everybody for the block."""
    where = ("-n", "registry")

    def address(pod: str) -> str:
        return cluster.kubectl(*where, "get", "pod", pod, "-o", "jsonpath={.status.podIP}")

    apply(cluster, _pod(address("registry")))
    try:
        cluster.kubectl(*where, "wait", "--for=condition=Ready", f"pod/{_NAME}", "--timeout=60s")
        cluster.kubectl(*where, "patch", "service", "registry", "-p", _SELECTOR % _NAME)
        yield FaultyRegistry(cluster, f"http://{address(_NAME)}:5000/")
    finally:
        cluster.kubectl(*where, "patch", "service", "registry", "-p", _SELECTOR % "registry")
        cluster.kubectl(*where, "delete", "pod", _NAME, "--grace-period=1")


def _pod(upstream: str) -> dict[str, Any]:
    container = {
        "name": "proxy",
        "image": "gkm.test/python:dev",
        "args": ["-c", _PROGRAM, upstream],
        "readinessProbe": {"httpGet": {"path": "/v2/", "port": 5000}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": _NAME,
            "namespace": "registry",
            "labels": {"app.kubernetes.io/name": _NAME},
        },
        "spec": {"automountServiceAccountToken": False, "containers": [container]},
    }
