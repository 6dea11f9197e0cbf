"""How the processes begin, and end when they cannot."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gkm.agent.fitness import Hardware
from gkm.base.errors import UsageError
from gkm.processes.agent import agent_config, driver_settings, find_hardware, node_name
from gkm.processes.config import parse_config

_BEGIN = "import sys; from gkm.processes.{0} import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("process", ["operator", "agent"])
def test_a_wrong_configuration_ends_it_in_one_line_of_json(process: str, tmp_path: Path) -> None:
    (tmp_path / "gkm.nogqu").write_text("true")
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN.format(process), "--config", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    entry = json.loads(done.stderr)
    assert entry["level"] == "error"
    assert "did you mean gkm.nogpu?" in entry["message"]


def test_an_agent_must_know_its_node() -> None:
    assert node_name({"KUBE_NODE_NAME": "a"}) == "a"
    with pytest.raises(UsageError, match="KUBE_NODE_NAME"):
        node_name({})


def test_simulated_gpus_of_the_configuration_win_and_are_checked_against() -> None:
    config = parse_config({"gkm.simulated.gpus": "2xH100", "gkm.nogpu": "true"})
    hardware = find_hardware(config, {"GKM_SIMULATED_GPUS": "1xT4"})
    assert [gpu.arch for gpu in hardware.gpus] == ["sm_90", "sm_90"]
    assert not hardware.unchecked
    assert find_hardware(parse_config({"gkm.nogpu": "true"}), {"GKM_SIMULATED_GPUS": ""}).unchecked


def test_sizes_and_budgets_reach_those_who_keep_them(tmp_path: Path) -> None:
    config = parse_config(
        {
            "gkm.pod.write.limit": "1Gi",
            "gkm.node.write.budget": "4Gi",
            "gkm.node.disk.limit": "9Gi",
            "gkm.node.disk.free": "30",
            "gkm.kubelet.root": "/var/lib/k0s/kubelet",
            "gkm.registry.plain.http": "registry.test:5000",
            "gkm.staging.parallel": "5",
        }
    )
    settings = driver_settings(config, "a")
    assert (settings.write_limit_bytes, settings.write_budget_bytes) == (1 << 30, 4 << 30)
    assert settings.socket == Path("/var/lib/k0s/kubelet/plugins/csi.gkm.io/csi.sock")
    agent = agent_config(config, "a", Hardware(()), tmp_path)
    assert (agent.disk.kept_free, agent.disk.most_bytes, agent.parallel) == (0.3, 9 << 30, 5)
    assert agent.plain_http == {"registry.test:5000"}
