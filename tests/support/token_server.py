"""A token server that a real registry trusts: it signs what distribution's "Token Authentication" asks for."""

import base64
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from support import parts
from support.fault_server import Reply, Request, answer

ISSUER, SERVICE = "test issuer", "test-registry"


@dataclass
class SigningServer:
    """Grants every scope that is asked for, except to those without `authorization`, who may only pull."""

    key: Path
    certificate: Path
    authorization: str

    def handle(self, request: Request) -> Reply:
        """The reply to a token request; for `support.fault_server`."""
        trusted = request.headers.get("authorization") == self.authorization
        if "authorization" in request.headers and not trusted:
            return answer(401)
        access = []
        for scope in request.query.get("scope", []):
            kind, name, actions = scope.split(":")
            granted = [action for action in actions.split(",") if trusted or action == "pull"]
            access.append({"type": kind, "name": name, "actions": granted})
        token = self._sign({"access": access, "sub": "alice" if trusted else ""})
        return answer(200, json.dumps({"token": token}).encode())

    def _sign(self, claims: dict[str, object]) -> str:
        lines = self.certificate.read_text().splitlines()
        header = {
            "alg": "RS256",
            "typ": "JWT",
            "x5c": ["".join(line for line in lines if "-----" not in line)],
        }
        now = int(time.time())
        times = {"iat": now, "nbf": now - 60, "exp": now + 300, "jti": "1"}
        parts_ = [header, {"iss": ISSUER, "aud": SERVICE, **times, **claims}]
        signed = b".".join(_base64(json.dumps(part).encode()) for part in parts_)
        program = parts.need_program("openssl", "openssl")
        command = [program, "dgst", "-sha256", "-sign", self.key]
        signature = subprocess.run(command, input=signed, check=True, capture_output=True).stdout
        return (signed + b"." + _base64(signature)).decode()


def make_signing_key(directory: Path) -> tuple[Path, Path]:
    """An RSA key and its own certificate."""
    key, certificate = directory / "token.key", directory / "token.pem"
    program = parts.need_program("openssl", "openssl")
    new = ["-x509", "-newkey", "rsa:2048", "-noenc", "-days", "2", "-subj", "/CN=token server"]
    subprocess.run(
        [program, "req", *new, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    return key, certificate


def _base64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
