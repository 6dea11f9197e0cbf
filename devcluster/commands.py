"""Run a helper program to its end, and say what it printed when it fails."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from devcluster.errors import CommandError


def run(argv: Sequence[str | Path], *, stdin: str | None = None, timeout: float = 60) -> str:
    """The standard output of `argv`.

    Raises `CommandError` with the program's last lines when it fails or takes longer than `timeout` seconds.
    """
    words = [str(word) for word in argv]
    try:
        got = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"`{' '.join(words)}` took longer than {timeout:.0f} s") from error
    except FileNotFoundError as error:
        raise CommandError(
            f"`{words[0]}` is not in PATH; `python -m devcluster doctor` says what to install"
        ) from error
    if got.returncode != 0:
        said = "\n".join((got.stderr or got.stdout).strip().splitlines()[-10:])
        raise CommandError(f"`{' '.join(words)}` failed with status {got.returncode}:\n{said}")
    return got.stdout


def program(name: str) -> str:
    """The path of a program in PATH. Raises `CommandError`."""
    path = shutil.which(name)
    if path is None:
        raise CommandError(f"`{name}` is not in PATH; `python -m devcluster doctor` says what to install")
    return path
