"""The real csi-sanity, built once per machine from the version that devcluster/go/csi-sanity pins."""

from pathlib import Path

from devcluster.binaries import ensure
from devcluster.errors import MissingPartError
from devcluster.parts import Module, Program
from support.parts import missing

_PROGRAM = Program("csi-sanity", Module("csi-sanity"), "github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity")


def csi_sanity() -> Path:
    """The program's path; fails on CI and skips elsewhere where it cannot be built."""
    try:
        return ensure([_PROGRAM], print)[_PROGRAM.name]
    except MissingPartError as error:
        missing("csi-sanity", str(error))
        raise AssertionError("unreachable") from error
