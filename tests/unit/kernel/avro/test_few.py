"""Records that fastavro decodes are those that DataFusion decodes, types included; damaged ones are refused."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from lakebed.errors import CorruptError
from lakebed.kernel.avro import decode, few
from lakebed.kernel.avro.container import Container, take_apart
from lakebed.kernel.avro.schema import plain_fields
from lakebed.kernel.scratch import Scratch

PAIR = {"type": "record", "name": "pair", "fields": [{"name": "k", "type": "int"}, {"name": "v", "type": "bytes"}]}
TYPES = {
    "a": "int", "b": ["null", "long"], "c": "string", "d": ["bytes", "null"], "e": {"type": "array", "items": PAIR},
    "f": ["null", {"type": "array", "items": "long"}], "g": "boolean", "h": ["null", "double"], "i": "float",
    "j": {"type": "fixed", "name": "four", "size": 4}, "k": ["null", {"type": "fixed", "name": "two", "size": 2}],
    "l": {"type": "array", "items": ["null", "string"]},
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {"a": -1, "b": None, "c": "é", "d": b"\xff", "e": [{"k": 1, "v": b""}, {"k": 2, "v": b"x"}], "f": None, "g": True,
     "h": 1.5, "i": float("inf"), "j": b"abcd", "k": None, "l": [None, "q"]},
    {"a": 2**31 - 1, "b": -(2**63), "c": "", "d": None, "e": [], "f": [1, 2], "g": False, "h": None, "i": -0.0,
     "j": bytes(4), "k": b"yz", "l": []},
]  # fmt: skip


def container(types: dict[str, Any] = TYPES, rows: list[dict[str, Any]] = ROWS) -> Container:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema({"type": "record", "name": "row", "fields": fields}), rows)
    return take_apart(file.getvalue())


def by_fastavro(file: Container, wanted: list[int]) -> Any:
    return few.decode_few(plain_fields(file.schema), wanted, [*file.contents()])


@pytest.mark.parametrize("wanted", [range(len(TYPES)), [4, 0]], ids=["all", "some"])
def test_both_decoders_agree(monkeypatch: pytest.MonkeyPatch, wanted: Any) -> None:
    file = container()
    batch = by_fastavro(file, [*wanted])
    batch.validate(full=True)
    monkeypatch.setattr(decode, "decode_few", lambda *_: None)
    (other,) = decode.decode_blocks([file], plain_fields(file.schema), [*wanted], 100, Scratch())
    assert batch.schema == other.schema
    assert batch.equals(other)


def test_other_types_and_many_records_are_left_to_datafusion(monkeypatch: pytest.MonkeyPatch) -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
    assert by_fastavro(container({"a": "int", "m": money}, []), [0]) is None
    assert by_fastavro(container({"a": ["null", "int", "string"]}, [{"a": 1}]), [0]) is None
    assert by_fastavro(container(), []) is None
    many = container({"a": "string"}, [{"a": "x" * few.FEW_BYTES}])
    monkeypatch.setattr(few, "_spent", few.ALL_BYTES)
    assert by_fastavro(many, [0]) is None


def test_damaged_blocks_are_refused() -> None:
    file = container({"a": "long", "b": "string"}, [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    fields, ((count, content),) = plain_fields(file.schema), file.contents()
    data = bytes(content)
    damaged = [(count - 1, data), (count + 1, data), (count, data[:-1]), (count, data + b"\0"), (1, b"\x02\xff\x01")]
    for block in (*damaged, (count, data.replace(b"y", b"\xff"))):
        with pytest.raises(CorruptError):
            few.decode_few(fields, [0, 1], [block])
