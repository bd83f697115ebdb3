"""Texts and bytes are held to the length of their type as they are written."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import SchemaError

MAP = {"type": "MAP", "key": "CHAR(2) NOT NULL", "value": "VARCHAR(1)"}
ROW = {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "CHAR(2)"}]}


def table_of(place: Path, types: dict[str, Any], key: str = "") -> Any:
    """A table of columns in Paimon's types, which Arrow's have no words for."""
    plain = {
        "ARRAY": pa.list_(pa.string()),
        "MAP": pa.map_(pa.string(), pa.string()),
        "ROW": pa.struct([("x", pa.string())]),
    }
    fields = []
    for name, kind in types.items():
        root = kind["type"] if isinstance(kind, dict) else kind
        given = plain[root] if root in plain else pa.binary() if "BINARY" in root else pa.string()
        fields.append(pa.field(name, given, name != key))
    options = {"bucket": "2"} if key else {}
    lakebed.create(str(place), "paimon", pa.schema(fields), primary_key=[key] if key else (), options=options)
    path = place / "schema" / "schema-0"
    schema = json.loads(path.read_text())
    for field in schema["fields"]:
        field["type"] = types[field["name"]]
    path.write_text(json.dumps(schema))
    return lakebed.open(str(place))


@pytest.mark.parametrize(
    ("kind", "given", "kept"),
    [
        ("VARCHAR(3)", ["abc", "a", "", None, "äöü", "abc   "], ["abc", "a", "", None, "äöü", "abc"]),
        ("CHAR(3)", ["abc", "a", "", None, "😀", "abc "], ["abc", "a  ", "   ", None, "😀  ", "abc"]),
        ("VARBINARY(2)", [b"ab", b"", None], [b"ab", b"", None]),
        ("BINARY(2)", [b"ab", b"a", None], [b"ab", b"a", None]),
        ({"type": "ARRAY", "element": "CHAR(2)"}, [["a", None], [], None], [["a ", None], [], None]),
        (MAP, [[("a", "b  ")], None], [[("a ", "b")], None]),
        (ROW, [{"x": "a"}, None], [{"x": "a "}, None]),
    ],
)  # fmt: skip
def test_what_fits_is_kept_or_padded(tmp_path: Path, kind: Any, given: list[Any], kept: list[Any]) -> None:
    table = table_of(tmp_path / "d.db" / "t", {"s": kind})
    whole = pa.table([given * 2], schema=table.schema)
    table.write(whole.slice(len(given)))
    assert table.read().read_all().column("s").to_pylist() == kept


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        ("VARCHAR(3)", "abcd", "column 's' holds values of more characters than its type VARCHAR\\(3\\) takes"),
        ("CHAR(3)", "ab d", "more characters than its type CHAR\\(3\\)"),
        ("VARBINARY(2)", b"abc", "more bytes than its type VARBINARY\\(2\\)"),
        ("BINARY(2)", b"ab ", "more bytes than its type BINARY\\(2\\)"),
        ({"type": "ARRAY", "element": "CHAR(2)"}, ["abc"], "column 's.element' holds"),
        (MAP, [("a", "bc")], "column 's.value' holds"),
        (ROW, {"x": "abc"}, "column 's.x' holds"),
    ],
)
def test_what_is_longer_is_refused(tmp_path: Path, kind: Any, value: Any, what: str) -> None:
    table = table_of(tmp_path / "d.db" / "t", {"s": kind})
    with pytest.raises(SchemaError, match=what):
        table.write(pa.table([[None, value]], schema=table.schema))
    assert table.history() == []


def test_a_key_is_padded_before_it_is_hashed(tmp_path: Path) -> None:
    table = table_of(tmp_path / "d.db" / "t", {"k": "CHAR(4) NOT NULL", "v": "STRING"}, key="k")
    for keys in (["a", "b", "c", "d"], ["a   ", "b ", "c", "d  "]):
        table.write(pa.table([keys, ["v"] * 4], schema=table.schema))
    assert sorted(row["k"] for row in table.read().read_all().to_pylist()) == ["a   ", "b   ", "c   ", "d   "]
    table.write(pa.table([["a"], [None]], schema=table.schema), mode="delete")
    assert len(table.read().read_all()) == 3
