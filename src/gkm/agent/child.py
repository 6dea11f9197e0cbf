"""gkm-extract as the agent sees it: started without privileges, listened to, and ended.

A child that stages needs a fifth of a second to start, which a pod would wait for: one is kept ready where a pod
may come (`Extractor.keep_ready`). It has given up its privileges by then and waits for its request.

The child's words are those of a process that met foreign bytes: lines are bounded, and what does not fit is an
error. It gets no more of the environment than proxies and certificates, and its credentials over a pipe.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from gkm.agent.confinement import Identity
from gkm.agent.errors import ExtractionCrashedError, ExtractionFailedError
from gkm.agent.messages import (
    LINE_LENGTH,
    MESSAGE_LENGTH,
    REASON_LENGTH,
    ExtractRequest,
    Failed,
    Moved,
    Relocated,
    RelocateRequest,
    Staged,
    read_event,
)
from gkm.agent.spare import Spare, end

_HANDED_ON = frozenset(
    {"PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "GO_LOG"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
    | {"http_proxy", "https_proxy", "no_proxy", "all_proxy"}
)
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(256 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""Pieces of a layer come and go by the thousand. What glibc is given back of them it would return to the kernel,
which gives it out again page by page, zeroed: a tenth of the time that unpacking takes (mallopt(3))."""
_LAST_WORDS = 2000

# -I: neither PYTHON* variables nor the working directory say what is imported.
PROGRAM = (sys.executable, "-I", "-m", "gkm.processes.extract")


_STAGE = "stage"


class Extractor:
    """How children are started. `identity` is None where the agent itself is an ordinary user, whose children
    have no privileges to lose. One that gives no sign of life for `silent_seconds` is ended."""

    def __init__(
        self,
        identity: Identity | None = None,
        program: Sequence[str] = PROGRAM,
        *,
        silent_seconds: float = 120.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.identity = identity
        self._program = program
        self._silent_seconds = silent_seconds
        self._environ = {name: value for name, value in environ.items() if name in _HANDED_ON} | _MALLOC
        self._spare = Spare(lambda: self._start(_STAGE))

    def keep_ready(self, *, wanted: bool) -> None:
        """Whether a child that stages is to be there from now on before `extract` asks for one."""
        self._spare.keep(wanted=wanted)

    async def aclose(self) -> None:
        """End the child that was kept ready."""
        await self._spare.aclose()

    async def extract(self, request: ExtractRequest, moved: Callable[[Moved], None]) -> Staged:
        """Have a child stage what `request` asks for; `moved` hears how it goes.

        However this ends, the child has ended, cancellation included.

        Raises:
            ExtractionFailedError: the child says why it failed; `reason` is the cause's own word.
            ExtractionCrashedError: it ended or fell silent without a word, or cannot be started.
        """
        task = _Task(request, f"staging {request.image}")
        process = self._spare.take() or await self._start(_STAGE)
        last = await self._ask(process, task, moved)
        assert isinstance(last, Staged)
        return last

    async def relocate(self, tree: Path, request: RelocateRequest) -> Relocated:
        """Have a child make a relocation layer of the sealed tree in the directory `tree`; otherwise as
        `extract`."""
        task = _Task(request, f"relocating {tree.name} to {request.root}")
        last = await self._ask(await self._start("relocate", str(tree)), task, lambda _: None)
        assert isinstance(last, Relocated)
        return last

    async def _ask(
        self, process: asyncio.subprocess.Process, task: "_Task", moved: Callable[[Moved], None]
    ) -> Staged | Relocated:
        errors = asyncio.create_task(_last_words(process.stderr))
        try:
            last = await self._listen(process, task, moved)
            code = await process.wait()
        finally:
            await end(process)
            errors.cancel()
        if code == 0 and isinstance(last, task.answer):
            return last
        if isinstance(last, Failed):
            word = last.reason[:REASON_LENGTH]
            reason = word if word.isascii() and word.isalnum() else ExtractionFailedError.reason
            raise ExtractionFailedError(last.message[:MESSAGE_LENGTH], reason)
        words = errors.result() if errors.done() and not errors.cancelled() else ""
        raise ExtractionCrashedError(
            f"gkm-extract ended with status {code} while {task.doing}: {words.strip() or 'no word'}"
        )

    async def _start(self, verb: str, *words: str) -> asyncio.subprocess.Process:
        """A child for `verb` of its command line; `words` follow our process ID. Raises `ExtractionCrashedError`."""
        # It gives up its privileges itself, first of all (`gkm.agent.confinement`): so it may be started from
        # where only the agent's user may read.
        ids = () if self.identity is None else (str(self.identity.uid), str(self.identity.gid))
        try:
            return await asyncio.create_subprocess_exec(
                *(*self._program, verb, str(os.getpid()), *words, *ids),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=LINE_LENGTH,
                cwd="/",
                env=self._environ,
                umask=0o022,
                start_new_session=True,
            )
        except OSError as error:
            raise ExtractionCrashedError(f"gkm-extract cannot be started: {error}") from error

    async def _listen(
        self, process: asyncio.subprocess.Process, task: "_Task", moved: Callable[[Moved], None]
    ) -> Staged | Relocated | Failed | None:
        """The child's last event; None when it ended without one."""
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it died at once; its status and last words say why
            process.stdin.write(msgspec.json.encode(task.request))
            await process.stdin.drain()
        process.stdin.close()
        try:
            while True:
                async with asyncio.timeout(self._silent_seconds):
                    data = await process.stdout.readline()
                if not data:
                    return None
                event = read_event(data)
                if not isinstance(event, Moved):
                    return event
                moved(event)
        except TimeoutError as error:
            raise ExtractionCrashedError(
                f"gkm-extract gave no sign of life for {self._silent_seconds} s while {task.doing}"
            ) from error
        except (msgspec.DecodeError, ValueError) as error:
            raise ExtractionCrashedError(f"gkm-extract wrote what is no event of its: {error}") from error


class _Task(NamedTuple):
    """What a child is asked for."""

    request: ExtractRequest | RelocateRequest
    doing: str
    """For people."""

    @property
    def answer(self) -> type[Staged] | type[Relocated]:
        """Its last event if all goes well."""
        return Staged if isinstance(self.request, ExtractRequest) else Relocated


async def _last_words(stream: asyncio.StreamReader | None) -> str:
    """The end of what the child writes to stderr, read all the time so that it never blocks on it."""
    assert stream is not None
    kept = b""
    while data := await stream.read(_LAST_WORDS):
        kept = (kept + data)[-_LAST_WORDS:]
    return kept.decode(errors="replace")
