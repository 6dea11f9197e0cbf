"""What devcluster tells its caller when it cannot go on."""

from gkm.base.errors import GKMError


class MissingPartError(GKMError):
    """This machine lacks something devcluster needs and may not install; the message says how to get it."""


class BuildError(GKMError):
    """A Go program did not build; the message ends with the compiler's last words."""


class CommandError(GKMError):
    """A helper program (openssl, ip, ctr, …) failed; the message ends with what it printed."""


class ComponentError(GKMError):
    """A part of the cluster ended or never became ready; the message ends with its log's last lines."""


class LeftoverError(GKMError):
    """Something of the cluster could not be ended or removed; the message names it."""
