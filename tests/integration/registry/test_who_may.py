"""Credentials, TLS and plain HTTP, against real registries that insist."""

import base64
import dataclasses
import json
import os

import pytest

from gkm.base.errors import UsageError
from gkm.images.copy import copy_image
from gkm.images.errors import UnauthorizedError, UnavailableError, UntrustedCertificateError
from gkm.images.open import open_repository
from gkm.images.options import ClientOptions
from gkm.images.reference import LayoutReference
from support.images import small_image, store
from support.registry import PASSWORD, USERNAME


def login_file(directory, host, password=PASSWORD, name="config.json"):
    auth = base64.b64encode(f"{USERNAME}:{password}".encode()).decode()
    (directory / name).write_text(json.dumps({"auths": {host: {"auth": auth}}}))
    return directory / name


def options(registry, **environ):
    return ClientOptions(ca=registry.ca, environ={"PATH": os.environ["PATH"], **environ})


async def test_credentials_of_docker_open_the_door(guarded_registry, fresh, tmp_path):
    login_file(tmp_path, guarded_registry.host)
    image, reference = small_image(b"x" * 5000), fresh(guarded_registry)
    async with open_repository(
        reference, options(guarded_registry, DOCKER_CONFIG=str(tmp_path))
    ) as repository:
        await store(repository, image, tmp_path, "v1")
        assert (await repository.resolve(reference)).digest == image.digest


async def test_the_registry_auth_file_goes_first(guarded_registry, fresh, tmp_path):
    login_file(tmp_path, guarded_registry.host, "a wrong one")
    right = login_file(tmp_path, guarded_registry.host, name="auth.json")
    environ = {"DOCKER_CONFIG": str(tmp_path), "REGISTRY_AUTH_FILE": str(right)}
    image, reference = small_image(b"x"), fresh(guarded_registry)
    async with open_repository(reference, options(guarded_registry, **environ)) as repository:
        await store(repository, image, tmp_path, "v1")
        assert (await repository.resolve(reference)).digest == image.digest


async def test_a_credential_helper_is_asked(guarded_registry, fresh, tmp_path):
    asked = tmp_path / "asked"
    helper = tmp_path / "docker-credential-test"
    helper.write_text(
        f'#!/bin/sh\ncat >{asked}\necho \'{{"Username": "{USERNAME}", "Secret": "{PASSWORD}"}}\'\n'
    )
    helper.chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {guarded_registry.host: "test"}}))
    environ = {"DOCKER_CONFIG": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    image, reference = small_image(b"x"), fresh(guarded_registry)
    async with open_repository(reference, options(guarded_registry, **environ)) as repository:
        await store(repository, image, tmp_path, "v1")
    assert asked.read_text() == guarded_registry.host


async def test_without_credentials_the_message_says_how_to_log_in(guarded_registry, fresh):
    reference = fresh(guarded_registry)
    async with open_repository(reference, options(guarded_registry)) as repository:
        with pytest.raises(UnauthorizedError, match=f"docker login {guarded_registry.host}"):
            await repository.resolve(reference)


async def test_a_wrong_password_is_told_with_the_name_and_without_the_password(
    guarded_registry, fresh, tmp_path
):
    login_file(tmp_path, guarded_registry.host, "not it")
    reference = fresh(guarded_registry)
    async with open_repository(
        reference, options(guarded_registry, DOCKER_CONFIG=str(tmp_path))
    ) as repository:
        with pytest.raises(UnauthorizedError, match=USERNAME) as caught:
            await repository.resolve(reference)
    assert "not it" not in str(caught.value)


async def test_an_unknown_authority_is_an_error_that_names_the_option(guarded_registry, fresh, tmp_path):
    reference = dataclasses.replace(fresh(guarded_registry))
    async with open_repository(reference, ClientOptions(environ={})) as repository:
        with pytest.raises(UntrustedCertificateError, match="--ca FILE"):
            await repository.resolve(reference)


async def test_tls_to_a_plain_registry_names_the_option(registry, guarded_registry, fresh):
    reference = fresh(registry)
    async with open_repository(reference, ClientOptions(ca=guarded_registry.ca, environ={})) as repository:
        with pytest.raises(UnavailableError, match="--plain-http"):
            await repository.resolve(reference)


async def test_a_file_without_certificates_is_a_usage_error(registry, fresh, tmp_path):
    (tmp_path / "ca.pem").write_text("nothing")
    for file in (tmp_path / "ca.pem", tmp_path / "absent.pem"):
        with pytest.raises(UsageError, match="PEM"):
            async with open_repository(fresh(registry), ClientOptions(ca=file)):
                pass


async def test_a_private_image_goes_to_a_layout_when_logged_in(guarded_registry, fresh, tmp_path):
    login_file(tmp_path, guarded_registry.host)
    image, reference = small_image(os.urandom(2 << 20), b"y"), fresh(guarded_registry)
    local = LayoutReference(tmp_path / "layout")
    chosen = options(guarded_registry, DOCKER_CONFIG=str(tmp_path))
    async with open_repository(reference, chosen) as remote, open_repository(local) as directory:
        await store(remote, image, tmp_path, "v1")
        result = await copy_image(remote, reference, directory, local)
        assert result.digest == image.digest
