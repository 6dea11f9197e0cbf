"""What is made from code is what lies in the tree, and says what the code says."""

import subprocess
import sys

import pytest
import yaml

from gkm.api.names import CSI_DRIVER, SYSTEM_NAMESPACE
from support.parts import REPOSITORY

_BASE = REPOSITORY / "deploy" / "base"


@pytest.mark.parametrize("tool", ["rbac.py", "deploy_config.py"])
def test_nothing_drifted(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools" / tool, "--check"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_right_is_a_wildcard_and_none_makes_rights() -> None:
    rules = [
        rule
        for path in _BASE.rglob("*.yaml")
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] in ("Role", "ClusterRole")
        for rule in document["rules"]
    ]
    assert rules
    words = {word for rule in rules for words in rule.values() for word in words}
    assert not words & {"*", "bind", "escalate", "impersonate", "rbac.authorization.k8s.io"}


def test_an_image_installs_what_the_lock_names_with_its_hashes() -> None:
    done = subprocess.run(
        [sys.executable, REPOSITORY / "tools/image_requirements.py", "--python", "3.11", "kube"],
        capture_output=True,
        text=True,
        check=True,
    )
    entries = [line for line in done.stdout.splitlines() if "==" in line]
    names = {line.partition("==")[0] for line in entries}
    assert {"lightkube", "msgspec", "httpx2", "prometheus-client"} <= names
    # Neither what people's commands need nor what kubelet speaks.
    assert not names & {"typer", "rich", "grpcio", "pytest", "triton"}
    assert done.stdout.count("--hash=sha256:") >= len(names)


def test_the_driver_is_the_one_that_the_code_answers_for() -> None:
    driver = yaml.safe_load((_BASE / "csidriver.yaml").read_text())
    assert driver["metadata"]["name"] == CSI_DRIVER
    assert driver["spec"] == {
        "attachRequired": False,
        "podInfoOnMount": True,
        "volumeLifecycleModes": ["Ephemeral", "Persistent"],
        "fsGroupPolicy": "None",
        "requiresRepublish": False,
        "seLinuxMount": False,
    }


@pytest.mark.parametrize("policy", ["only-the-operator", "own-node"])
def test_policies_name_the_accounts_that_are_installed(policy: str) -> None:
    account = {"only-the-operator": "gkm-operator", "own-node": "gkm-agent"}[policy]
    assert (
        f'"system:serviceaccount:{SYSTEM_NAMESPACE}:{account}"'
        in (_BASE / f"policies/{policy}.yaml").read_text()
    )
