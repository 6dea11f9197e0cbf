"""A real registry on loopback for the time of a demonstration: the CNCF distribution's, where it is installed."""

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from gkm.base.errors import GKMError

# Debian's package and the project's own build name the same program differently.
_PROGRAMS = ("docker-registry", "registry")
_START_SECONDS = 20.0


class RegistryDidNotStartError(GKMError):
    """The registry program is there but does not answer; the message holds what it printed."""


def registry_program() -> str | None:
    """The installed registry's path, or None."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


@contextlib.contextmanager
def loopback_registry(program: str, directory: Path) -> Iterator[str]:
    """Run `program` with its data in `directory`; yields ``127.0.0.1:PORT``, stops it at the end.

    Raises:
        RegistryDidNotStartError: it ended or stayed silent.
    """
    port = _free_port()
    host = f"127.0.0.1:{port}"
    log = directory / "registry.log"
    configuration = directory / "registry.yml"
    # JSON is YAML; the registry reads no other format.
    settings = {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
        "http": {"addr": host},
    }
    configuration.write_text(json.dumps(settings), encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, "serve", str(configuration)], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_until_it_answers(host, process, log)
        yield host
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_answers(host: str, process: subprocess.Popen[bytes], log: Path) -> None:
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({})
    )  # loopback never goes through a proxy
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with opener.open(f"http://{host}/v2/", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RegistryDidNotStartError(f"the registry {process.args!r} does not answer on {host}:\n{said}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
