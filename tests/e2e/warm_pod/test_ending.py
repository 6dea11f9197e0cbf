"""Whoever is told to end does, whenever that is."""

from typing import Any

import pytest

from support.devcluster import BUSYBOX
from support.installed import apply, eventually

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

_GRACE = 500
"""Seconds until kubelet kills what does not end by itself: longer than the test waits."""


@pytest.mark.parametrize("program", ["gkm-operator", "gkm-agent"])
def test_a_process_that_has_just_begun_ends_when_it_is_told(
    gkm: Any, empty_namespace: str, program: str
) -> None:
    cluster, namespace = gkm.cluster, empty_namespace
    # Nothing ever comes out of this file, so the process is for ever at its beginning, and deaf if it is the first
    # of its container.
    volume = {"name": "fifo", "mountPath": "/fifo"}
    fifo = {
        "name": "fifo",
        "image": BUSYBOX,
        "command": ["mkfifo", "/fifo/gkm.nogpu"],
        "volumeMounts": [volume],
    }
    container = {
        "name": "main",
        "image": f"gkm.test/{program}:dev",
        "args": ["--config", "/fifo"],
        "volumeMounts": [volume],
    }
    spec = {
        "terminationGracePeriodSeconds": _GRACE,
        "initContainers": [fifo],
        "containers": [container],
        "volumes": [{"name": "fifo", "emptyDir": {}}],
    }
    apply(
        cluster,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "begun", "namespace": namespace},
            "spec": spec,
        },
    )
    where = ("-n", namespace, "get", "pod", "begun", "--ignore-not-found", "-o")
    started = "jsonpath={.status.containerStatuses[0].state.running.startedAt}"
    eventually(lambda: cluster.kubectl(*where, started), "it runs")
    cluster.kubectl("-n", namespace, "delete", "pod", "begun", "--wait=false")
    eventually(lambda: not cluster.kubectl(*where, "name"), "it ends", 60)
