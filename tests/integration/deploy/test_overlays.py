"""Every overlay is something that a real API server takes."""

import copy

import pytest
import yaml

from gkm.api.names import CONFIG_MAP, CSI_DRIVER, SYSTEM_NAMESPACE
from gkm.processes.config import parse_config
from support.devcluster import Cluster
from support.installed import OVERLAYS, apply, rendered


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_server_takes_all_of_it(installed: Cluster, overlay: str) -> None:
    apply(installed, *rendered(installed, overlay), dry_run=True)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_its_configuration_is_read_by_what_it_installs(control_plane: Cluster, overlay: str) -> None:
    objects = {(o["kind"], o["metadata"]["name"]): o for o in rendered(control_plane, overlay)}
    config = parse_config(objects["ConfigMap", CONFIG_MAP]["data"])
    assert bool(config.simulated_gpus) == (overlay != "default")
    assert config.kindcluster == (overlay == "kind")
    agent = objects["DaemonSet", "gkm-agent"]["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount for mount in agent["containers"][0]["volumeMounts"]}
    assert mounts[config.kubelet_root]["mountPropagation"] == "Bidirectional"
    assert ("CSIDriver", CSI_DRIVER) in objects


def test_everything_namespaced_is_in_the_system_namespace(control_plane: Cluster) -> None:
    namespaces = {o["metadata"].get("namespace") for o in rendered(control_plane, "default")}
    assert namespaces == {None, SYSTEM_NAMESPACE}


def test_the_operator_keeps_to_the_restricted_profile_and_the_agent_cannot(
    control_plane: Cluster, namespace: str
) -> None:
    control_plane.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    templates = {
        o["metadata"]["name"]: o["spec"]["template"]
        for o in rendered(control_plane, "default")
        if o["kind"] in ("Deployment", "DaemonSet")
    }
    refused = {}
    for name, template in templates.items():
        pod = copy.deepcopy({"apiVersion": "v1", "kind": "Pod", **template})
        pod["metadata"] |= {"name": name, "namespace": namespace}
        del pod["spec"]["serviceAccountName"]
        got = control_plane.run_kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))
        refused[name] = got.stderr if got.returncode else ""
    assert refused["gkm-operator"] == ""
    assert 'violates PodSecurity "restricted' in refused["gkm-agent"]
