"""Keys and certificates of a cluster, made with the openssl program.

One authority per cluster, ECDSA P-256, valid for a year: a cluster here is younger than that. Who is who
follows https://kubernetes.io/docs/setup/best-practices/certificates/: the common name is the user, the
organisation the group that RBAC binds.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.commands import run

_DAYS = "365"


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the cluster's own, in `folder`."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """What everybody trusts."""
        return self.folder / "ca.crt"

    @property
    def key(self) -> Path:
        """What signs; the controller manager uses it for certificate requests."""
        return self.folder / "ca.key"

    def create(self) -> None:
        """Make the folder and the authority in it."""
        self.folder.mkdir(mode=0o700)
        extensions = ["basicConstraints = critical, CA:TRUE", "keyUsage = critical, keyCertSign, cRLSign"]
        extensions.append("subjectKeyIdentifier = hash")
        self._certificate(Pair(self.certificate, self.key), "/CN=gkm-devcluster", extensions)

    def issue(self, file: str, user: str, *, groups: Sequence[str] = (), names: Sequence[str] = ()) -> Pair:
        """A certificate for `user` in `groups`; with `names` (``DNS:…``, ``IP:…``) it may serve as well."""
        extensions = [
            "basicConstraints = critical, CA:FALSE",
            "keyUsage = critical, digitalSignature",
            "authorityKeyIdentifier = keyid",  # strict verifiers (Python from 3.13) ask for it
            f"extendedKeyUsage = {'serverAuth, clientAuth' if names else 'clientAuth'}",
        ]
        if names:
            extensions.append(f"subjectAltName = {', '.join(names)}")
        subject = "".join(f"/O={_escaped(group)}" for group in groups) + f"/CN={_escaped(user)}"
        pair = Pair(self.folder / f"{file}.crt", self.folder / f"{file}.key")
        self._certificate(pair, subject, extensions, ["-CA", self.certificate, "-CAkey", self.key])
        return pair

    def _certificate(
        self, pair: Pair, subject: str, extensions: list[str], signer: Sequence[str | Path] = ()
    ) -> None:
        """One run of openssl makes key and certificate: dozens of runs would take seconds."""
        config = pair.certificate.with_suffix(".cnf")
        sections = ["[req]", "distinguished_name = none", "x509_extensions = extensions", "[none]"]
        config.write_text("\n".join([*sections, "[extensions]", *extensions, ""]))
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
        serial = ["-set_serial", f"0x{os.urandom(16).hex()}", "-days", _DAYS]
        output: list[str | Path] = ["-subj", subject, "-keyout", pair.key, "-out", pair.certificate]
        run(["openssl", "req", "-x509", "-config", config, *curve, *serial, *signer, *output])
        pair.key.chmod(0o600)
        config.unlink()


def make_signing_key(private: Path, public: Path) -> None:
    """Make the key pair that signs service accounts' tokens.

    RSA: the one signature algorithm that every OIDC relying party knows.
    """
    run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", private])
    run(["openssl", "pkey", "-pubout", "-in", private, "-out", public])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("/", "\\/")
