"""The same bytes on CPUs of other generations: compressors choose their code by what the CPU can do."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from support import parts

_PACK = """
import sys
from pathlib import Path
from gkm.images.pack import pack
files = {f"io.x.cache/{path.name}": path for path in Path(sys.argv[1]).glob("*.py")}
for compression in ("zstd", "gzip"):
    print(pack(files, labels={}, title=None, compression=compression, into=Path(sys.argv[2])).digest)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="emulates x86-64 generations on x86-64")
def test_digests_do_not_depend_on_the_cpu(tmp_path: Path) -> None:
    """Nehalem has SSE4.2 and nothing later. ISA-L's level 3 gives other bytes there than with AVX2."""
    qemu = parts.need_program("qemu-x86_64", "qemu-user")
    sources = Path(os.__file__).parent / "asyncio"
    program = [sys.executable, "-c", _PACK, sources, tmp_path]
    native = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert native.count("sha256:") == 2
    emulated = subprocess.run([qemu, "-cpu", "Nehalem", *program], check=True, capture_output=True, text=True)
    assert emulated.stdout == native
