"""The community's conformance suite, against the real driver."""

import asyncio
import re
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from gkm.api.values import CacheKind
from gkm.csi.ports import CacheName
from support.csi import Answer
from support.csi_node import Node
from support.csi_proxy import CHECK_PATH, proxied
from support.csi_sanity import csi_sanity
from support.views import seal_files, triton_files

pytestmark = pytest.mark.root

APPLIES = r"Identity Service|Node Service"
NOT_APPLICABLE = {
    r"NodeStageVolume|NodeUnstageVolume": "a view belongs to one pod: there is nothing to stage for a node",
    r"NodeExpandVolume": "a limit is set when a pod starts, and never changed",
    r"NodeGetVolumeHealth|NodeGetStorageHealth": "calls of CSI 1.13 that no kubelet makes; stats tell the condition",
    r"single node multi writer": "for drivers that restrict writers to one pod; here each has its own view",
}
"""Why a case of the node service is skipped; csi-sanity skips by itself what a driver does not offer."""


# It builds the suite where that was not done before.
@pytest.mark.timeout(900)
async def test_every_case_for_a_node_only_driver_passes(node: Node, tmp_path: Path) -> None:
    program = csi_sanity()
    cache = CacheName(CacheKind.CLUSTER_GKM_CACHE, None, "kernels")
    node.caches.say(cache, Answer(seal_files(node.store, triton_files("add")).digest))
    pod = node.pod("sanity")
    mount_parent = node.target(pod).parent
    mount_parent.parent.mkdir(parents=True)
    check = tmp_path / "check-path"
    check.write_text(CHECK_PATH)
    check.chmod(0o755)
    report, socket = tmp_path / "report.xml", node.root / "proxy.sock"
    async with node.running(), proxied(node.settings.socket, socket, pod, {"csi.gkm.io/GKMCache": "kernels"}):
        process = await asyncio.create_subprocess_exec(
            program,
            f"-csi.endpoint={socket}",
            f"-csi.mountdir={mount_parent}",
            f"-csi.stagingdir={tmp_path / 'staging'}",
            f"-csi.checkpathcmd={check}",
            f"-csi.junitfile={report}",
            f"-ginkgo.focus={APPLIES}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode(errors="replace")
        while node.leftovers():
            await asyncio.sleep(0.01)
    assert process.returncode == 0, output[-4000:]
    cases = outcomes(report)
    skipped = [name for name in cases["skipped"] if re.search(APPLIES, name)]
    unexplained = [name for name in skipped if not any(re.search(why, name) for why in NOT_APPLICABLE)]
    assert unexplained == []
    passed = "\n".join(cases["passed"])
    for needed in (
        "should return appropriate information",
        "NodeGetInfo should return appropriate values",
        "NodePublishVolume should fail when no target path is provided",
        "NodeUnpublishVolume should remove target path",
        "NodeGetVolumeStats should fail when volume does not exist on the specified path",
        "Node Service should work",
        "Node Service should be idempotent",
    ):
        assert needed in passed.replace("] ", " ").replace("[", ""), passed


def outcomes(report: Path) -> dict[str, list[str]]:
    """The names of the cases, by what became of them."""
    found: dict[str, list[str]] = defaultdict(list)
    for case in ET.parse(report).iter("testcase"):
        found[case.get("status") or "?"].append(case.get("name") or "?")
    return found
