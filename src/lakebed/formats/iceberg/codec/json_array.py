"""Arrays of table metadata whose items stay text until somebody asks for them.

A table may have thousands of snapshots. All but the newest pass unread from each metadata file to the next, so that
neither opening a table nor a commit pays for its history in Python objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

import msgspec

from lakebed.kernel.decoding import parsed_json

Document = Mapping[str, Any]
T = TypeVar("T")

_items = msgspec.json.Decoder(list[msgspec.Raw] | None).decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class JsonArray(Sequence[Document]):
    """An array of JSON objects, each as text or already as an object. Immutable and picklable."""

    __slots__ = ("_known", "_stored")

    def __init__(self, stored: Iterable[bytes | Document]) -> None:
        self._stored = tuple(stored)
        self._known: dict[type, list[Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonArray, (self._stored,)

    @classmethod
    def of(cls, value: JsonArray | Iterable[Document] | None) -> JsonArray:
        """The value of a document's key: an array, or None for none."""
        return value if isinstance(value, JsonArray) else cls(value or ())

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[Document]:
        return map(_parsed, self._stored)

    @overload
    def __getitem__(self, place: int) -> Document: ...
    @overload
    def __getitem__(self, place: slice) -> JsonArray: ...
    def __getitem__(self, place: int | slice) -> Document | JsonArray:
        return JsonArray(self._stored[place]) if isinstance(place, slice) else _parsed(self._stored[place])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # its items are no values

    def plus(self, item: Document) -> JsonArray:
        """The array with one more item."""
        longer = JsonArray((*self._stored, to_json(item)))
        longer._known = {kind: [*known, msgspec.convert(item, kind)] for kind, known in self._known.items()}
        return longer

    def only(self, places: Iterable[int]) -> JsonArray:
        """The items at these places."""
        return JsonArray(self._stored[place] for place in places)

    def where(self, keeps: Callable[[Document], bool]) -> JsonArray:
        """The items that `keeps` accepts. Those that are text stay text."""
        return JsonArray(item for item in self._stored if keeps(_parsed(item)))

    def read(self, kind: type[T]) -> Sequence[T]:
        """All items as a msgspec struct that names the wanted values: what it does not name is skipped.

        msgspec.ValidationError (a ValueError) for an item that lacks a value or has one of another type.
        """
        if kind not in self._known:
            decode = msgspec.json.Decoder(kind).decode
            self._known[kind] = [decode(i) if isinstance(i, bytes) else msgspec.convert(i, kind) for i in self._stored]
        return self._known[kind]

    @property
    def text(self) -> bytes:
        """The array as JSON."""
        return b"[%b]" % b",".join(i if isinstance(i, bytes) else to_json(i) for i in self._stored)


def document_from_json(text: bytes, arrays: Iterable[str]) -> dict[str, Any]:
    """The members of a JSON object. Those named in `arrays` become JsonArrays. ValueError for anything else."""
    members = _members(text)
    return {name: _array(raw) if name in arrays else parsed_json(bytes(raw)) for name, raw in members.items()}


def document_to_json(document: Document) -> bytes:
    """An object with JsonArrays among its members as JSON."""
    members = (
        to_json(name) + b":" + (value.text if isinstance(value, JsonArray) else to_json(value))
        for name, value in document.items()
    )
    return b"{%b}" % b",".join(members)


def to_json(value: Any) -> bytes:
    """A value as compact JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _array(raw: msgspec.Raw) -> JsonArray | None:
    items = _items(raw)
    return None if items is None else JsonArray(map(bytes, items))


def _parsed(item: bytes | Document) -> Document:
    if not isinstance(item, bytes):
        return item
    document = parsed_json(item)
    if not isinstance(document, dict):
        raise ValueError("an item is not an object")
    return document
