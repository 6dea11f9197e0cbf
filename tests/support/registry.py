"""A real registry (Debian's docker-registry) on a free loopback port, its data in a directory of the test's."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support import parts

USERNAME, PASSWORD = "alice", "a secret"
# bcrypt of PASSWORD, cost 5: the only kind of hash that the registry reads.
_HTPASSWD = f"{USERNAME}:$2b$05$abcdefghijklmnopqrstuuIAEipimVgSTxGS2VyWH9AhzRz3iJI3.\n"
_START_SECONDS = 20
_LISTENING = re.compile(r"listening on (127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class RunningRegistry:
    """A registry that answers at `host`; with `ca`, in TLS by a certificate of that authority."""

    host: str
    data: Path
    ca: Path | None = None

    def blob_file(self, digest: str) -> Path:
        """Where the registry keeps the bytes of a blob, for tests that damage them."""
        text = digest.removeprefix("sha256:")
        return self.data / "docker/registry/v2/blobs/sha256" / text[:2] / text / "data"


@dataclass(frozen=True)
class TokenAuth:
    """Where the registry sends clients for tokens, and the certificate that signs them."""

    realm: str
    service: str
    issuer: str
    certificates: Path


@contextmanager
def running_registry(
    directory: Path, *, htpasswd: bool = False, tls: bool = False, token: TokenAuth | None = None
) -> Iterator[RunningRegistry]:
    """Start a registry that keeps everything below `directory`, and end it with the block.

    `htpasswd` lets in USERNAME with PASSWORD alone; `tls` makes an authority with openssl; `token` sends
    clients to a token server.
    """
    program = parts.need_program("docker-registry", "docker-registry")
    data = directory / "data"
    settings = [
        "version: 0.1",
        "log: {accesslog: {disabled: true}}",
        f"storage: {{filesystem: {{rootdirectory: {data}}}, delete: {{enabled: true}}}}",
        "http:",
        "  addr: 127.0.0.1:0",
    ]
    ca = None
    if tls:
        ca, certificate, key = make_certificates(directory)
        settings.append(f"  tls: {{certificate: {certificate}, key: {key}}}")
    if htpasswd:
        passwords = directory / "htpasswd"
        passwords.write_text(_HTPASSWD)
        settings.append(f"auth: {{htpasswd: {{realm: test, path: {passwords}}}}}")
    if token:
        settings.append(
            f"auth: {{token: {{realm: '{token.realm}', service: {token.service}, issuer: {token.issuer}, "
            f"rootcertbundle: {token.certificates}}}}}"
        )
    config, log = directory / "config.yml", directory / "registry.log"
    config.write_text("\n".join(settings) + "\n")
    with log.open("wb") as output:
        process = subprocess.Popen([program, "serve", config], stdout=output, stderr=output)
    try:
        yield RunningRegistry(_wait(process, log), data, ca)
    finally:
        process.terminate()
        process.wait()


def make_certificates(directory: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate of its for localhost: the authority's file, the certificate, its key."""
    ca, ca_key = directory / "ca.pem", directory / "ca.key"
    certificate, key = directory / "server.pem", directory / "server.key"
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2", "-x509"]
    _openssl(
        *("req", *new, "-subj", "/CN=test authority", "-keyout", ca_key, "-out", ca),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
    )
    _openssl(
        *("req", *new, "-subj", "/CN=localhost", "-keyout", key, "-out", certificate),
        *("-CA", ca, "-CAkey", ca_key, "-addext", "basicConstraints=critical,CA:FALSE"),
        *("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
    )
    return ca, certificate, key


def _openssl(*arguments: str | Path) -> None:
    program = parts.need_program("openssl", "openssl")
    subprocess.run([program, *arguments], check=True, capture_output=True)


def _wait(process: subprocess.Popen[bytes], log: Path) -> str:
    """The address that the registry says it listens on."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if match := _LISTENING.search(log.read_text()):
            return match[1]
        time.sleep(0.02)
    raise AssertionError(f"the registry did not start:\n{log.read_text()}")
