"""Takes the items out of a list's JSON while it arrives, so that no list is ever held whole.

msgspec decodes whole texts only, so something has to say where items end. The splitter guesses that from how
the first item begins, and lets msgspec judge the guess: what stands between the list's bracket and the end of
one of its items is an array once it is put in brackets, and nothing shorter or longer is. So a wrong guess
costs time, never an object; a server that writes JSON in another way is read too, but held whole.
"""

import msgspec

PART = 256 << 10
"""Bytes that are gathered before items are looked for: enough to make looking cheap, too few to matter."""

_ITEMS = b'"items":['
# API machinery writes an item's metadata first, or after its apiVersion and kind, which all items share.
_METADATA = b'"metadata":'
_LONGEST_BEGINNING = 1 << 10
# An item in which other items' beginnings occur has them near its end, or is rare.
_GUESSES = 4


class ListSplitter:
    """Fed with a list's JSON in pieces, gives its items as they become complete."""

    def __init__(self, part: int = PART) -> None:
        self._part = part
        self._due = part
        self._head = b""
        self._between = b""
        self._held = bytearray()

    def feed(self, piece: bytes) -> list[msgspec.Raw]:
        """The items that are known to be complete now, in order."""
        self._held += piece
        if len(self._held) < self._due:
            return []
        items = self._take() if self._began() else []
        # Twice as much before the next look, or an endless item would be looked through again and again.
        self._due = self._part if items else 2 * len(self._held)
        return items

    def end(self) -> bytes:
        """The list's JSON with all items but those that `feed` gave."""
        return self._head + bytes(self._held)

    def _began(self) -> bool:
        """Whether the first item was reached and shows how the others begin."""
        if not self._head:
            start = self._held.find(_ITEMS) + len(_ITEMS)
            if start < len(_ITEMS):
                return False
            self._head = bytes(self._held[:start])
            del self._held[:start]
            metadata = self._held.find(_METADATA, 0, _LONGEST_BEGINNING)
            if metadata > 0:
                self._between = b"}," + bytes(self._held[: metadata + len(_METADATA)])
        return bool(self._between)

    def _take(self) -> list[msgspec.Raw]:
        end = len(self._held)
        for _ in range(_GUESSES):
            end = self._held.rfind(self._between, 0, end)
            if end < 0:
                break
            try:
                items = msgspec.json.decode(b"[" + self._held[: end + 1] + b"]", type=list[msgspec.Raw])
            except msgspec.DecodeError:
                continue
            # The comma goes too: what is left begins with an item, as it did.
            del self._held[: end + 2]
            return items
        return []
