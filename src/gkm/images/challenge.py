"""The ``WWW-Authenticate`` header, parsed (RFC 9110 §11.6.1).

Pure: bytes from a server go in, challenges come out, and nothing a server sends makes it fail.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# One element of the comma-separated list: a scheme, alone or before its first parameter, or a parameter.
_SCHEME = re.compile(rf"({_WORD})(?:\s+|\s*(?=,|$))(?!\s*=)")
_PARAMETER = re.compile(rf'({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))')
_TOKEN68 = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=\s*(?:,|$))")
_GAP = re.compile(r"[\s,]*")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way in that a server offers."""

    scheme: str
    """In lower case: ``basic``, ``bearer``."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Names in lower case."""


def parse_challenges(headers: Iterable[str]) -> list[Challenge]:
    """The challenges of all ``WWW-Authenticate`` headers in a response, in order.

    What does not follow the grammar ends its own header's list; the challenges before it count.
    """
    return [challenge for header in headers for challenge in _parse(header)]


def _parse(header: str) -> list[Challenge]:
    found: list[Challenge] = []
    position = _skip(header, 0)
    while position < len(header):
        if found and (parameter := _PARAMETER.match(header, position)):
            name, quoted, plain = parameter.groups()
            value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
            found[-1].parameters.setdefault(name.lower(), value)
            position = _skip(header, parameter.end())
        elif scheme := _SCHEME.match(header, position):
            found.append(Challenge(scheme.group(1).lower()))
            position = scheme.end()
            if not _PARAMETER.match(header, position) and (blob := _TOKEN68.match(header, position)):
                position = blob.end()
            position = _skip(header, position)
        else:
            break
    return found


def _skip(header: str, position: int) -> int:
    match = _GAP.match(header, position)
    return match.end() if match else position
