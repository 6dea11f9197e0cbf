"""The counting child as the agent sees it: one short process per count, a few at a time."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence

import msgspec

from gkm.agent.confinement import Identity
from gkm.agent.counting import CountAnswer, CountRequest

PROGRAM = (sys.executable, "-I", "-m", "gkm.processes.extract", "count")
_AT_ONCE = 2
_SECONDS = 90.0
_LONGEST_ANSWER = 64 << 10
_NICENESS = 10
"""A ninth of the weight of the agent's own threads (sched(7)): it gets on where they never rest, too."""


class Counter:
    """Has views counted by children that become `identity`; None where the agent is an ordinary user itself."""

    def __init__(self, identity: Identity | None = None, program: Sequence[str] = PROGRAM) -> None:
        self._identity = identity
        self._program = program
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def count(self, request: CountRequest) -> CountAnswer:
        """What `request` asks for. Never raises for what the child does; a `problem` says that it failed."""
        async with self._slots:
            ids = () if self._identity is None else (str(self._identity.uid), str(self._identity.gid))
            try:
                process = await asyncio.create_subprocess_exec(
                    *(*self._program, str(os.getpid()), *ids),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    cwd="/",
                    env={"PATH": os.defpath},
                )
            except OSError as error:
                return CountAnswer(problem=f"the counting child cannot be started: {error}")
            _yield_to_others(process.pid)
            try:
                return await _ask(process, request)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


def _yield_to_others(pid: int) -> None:
    """Let the process `pid` have what CPU is left: nobody waits for a count, and pods wait for the agent."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _NICENESS)


async def _ask(process: asyncio.subprocess.Process, request: CountRequest) -> CountAnswer:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_SECONDS):
            with contextlib.suppress(ConnectionError):
                process.stdin.write(msgspec.json.encode(request))
                await process.stdin.drain()
            process.stdin.close()
            data = await process.stdout.read(_LONGEST_ANSWER)
            # It leaves by itself. To kill what is just ending would have `subprocess` wait for it in asyncio's place,
            # which then warns of a child it lost.
            await process.wait()
            return msgspec.json.decode(data, type=CountAnswer)
    except TimeoutError:
        return CountAnswer(problem=f"not counted within {_SECONDS} s")
    except msgspec.DecodeError:
        return CountAnswer(problem="the counting child ended without an answer")
