"""Credential helpers: programs that keep secrets elsewhere (docker-credential-helpers' protocol)."""

import asyncio
import re
from collections.abc import Mapping

import msgspec

from gkm.images.auth_config import Credentials
from gkm.images.errors import CredentialsError

_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HELPER_SECONDS = 60.0
# Under which docker's own tools keep what belongs to Docker Hub.
_DOCKER_HUB_KEY = "https://index.docker.io/v1/"
_TOKEN_USER = "<token>"  # noqa: S105  how a helper says that the secret is an identity token


class _HelperAnswer(msgspec.Struct, rename="pascal"):
    username: str
    secret: str


async def ask_helper(helper: str, host: str, environ: Mapping[str, str]) -> Credentials | None:
    """Ask the program ``docker-credential-HELPER``; None where it knows nothing of `host`.

    Raises:
        CredentialsError: it is not there, fails, takes more than a minute, or answers in another language.
    """
    program = f"docker-credential-{helper}"
    if _HELPER_NAME.fullmatch(helper) is None:
        raise CredentialsError(
            f"{helper!r} cannot be the name of a credential helper: correct the credentials file"
        )
    key = _DOCKER_HUB_KEY if host == "docker.io" else host
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "get",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(environ),
        )
    except OSError as error:
        raise CredentialsError(
            f"the credential helper {program} cannot be started ({error.strerror}): install it, "
            "or take it out of the credentials file"
        ) from error
    try:
        async with asyncio.timeout(_HELPER_SECONDS):
            output, complaint = await process.communicate(key.encode())
    except TimeoutError as error:
        raise CredentialsError(
            f"{program} gave no answer for {host} within {_HELPER_SECONDS:.0f} s"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        # The protocol has this one sentence on stdout for "none" (docker-credential-helpers).
        if b"credentials not found" in output:
            return None
        words = (output or complaint).decode(errors="replace").strip()[:200]
        raise CredentialsError(f"{program} failed for {host}: {words!r}")
    try:
        answer = msgspec.json.decode(output, type=_HelperAnswer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CredentialsError(f"{program} gave no readable answer for {host}") from error
    if answer.username == _TOKEN_USER:
        return Credentials(identity_token=answer.secret)
    return Credentials(answer.username, answer.secret)
