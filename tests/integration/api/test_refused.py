"""Bad objects are refused by the real API server, with a message that names the field and says what is wrong.

Each file in `refused/` is one bad object. Its comments say at which path it is refused and with which words;
where it holds several documents, the last is refused as a change of the first, which is accepted.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

CORPUS = sorted((Path(__file__).parent / "refused").glob("*.yaml"))


def comments(text: str) -> dict[str, str]:
    """The lines ``# key: value`` at the beginning of a file."""
    return dict(re.findall(r"^# (\w+): (.*)$", text, re.MULTILINE))


def complaints(status: dict[str, Any]) -> list[str]:
    """What a Status says, one line for each field it blames."""
    causes = status.get("details", {}).get("causes", [])
    return [f"{cause.get('field')}: {cause['message']}" for cause in causes] or [status["message"]]


def test_corpus_is_there() -> None:
    assert len(CORPUS) >= 20


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_bad_object_is_refused_by_path(path: Path, server) -> None:
    text = path.read_text()
    expected = comments(text)
    *before, bad = [msgspec.yaml.decode(document) for document in text.split("---\n")]
    try:
        if before:
            stored = server.create(before[0])
            assert stored["kind"] == before[0]["kind"], stored
            answer = server.replace(bad, stored, expected.get("through", ""))
        else:
            answer = server.create(bad)
    finally:
        server.delete(bad)
    assert answer["kind"] == "Status", "accepted"
    assert answer["code"] in {400, 422}, answer
    told = complaints(answer)
    blamed = re.compile(rf'(^|["\s.]){re.escape(expected["at"])}["\s:]')
    assert any(blamed.search(line) and expected["because"] in line for line in told), told
