"""What a new table may be: the definition that Paimon allows, and one clear error for what it does not."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, OptionError, SchemaError, TableExistsError

BASE = pa.schema([("id", pa.int64()), ("dt", pa.string()), ("v", pa.string()), ("t", pa.struct([("x", pa.int32())]))])


def test_schema_file_is_what_the_jvm_writes(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("amount", pa.decimal128(10, 2)),
            ("at", pa.timestamp("us")),
            ("local", pa.timestamp("ms", "UTC")),
            ("tags", pa.list_(pa.string())),
            ("where", pa.struct([("x", pa.int32()), pa.field("y", pa.string(), nullable=False)])),
            ("counts", pa.map_(pa.string(), pa.int64())),
        ]
    )
    table = lakebed.create(
        tmp_path / "t", "paimon", schema, ["id"], options={"bucket": "4", "Merge-Engine": "deduplicate"}
    )
    written = json.loads((tmp_path / "t/schema/schema-0").read_text())
    assert written["version"] == 3
    assert written["highestFieldId"] == 8
    assert written["primaryKeys"] == ["id"]
    assert written["options"] == {"bucket": "4", "merge-engine": "deduplicate"}
    assert [(field["id"], field["type"]) for field in written["fields"]] == [
        (0, "BIGINT NOT NULL"),
        (1, "DECIMAL(10, 2)"),
        (2, "TIMESTAMP(6)"),
        (3, "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        (4, {"type": "ARRAY", "element": "STRING"}),
        (
            5,
            {
                "type": "ROW",
                "fields": [{"id": 6, "name": "x", "type": "INT"}, {"id": 7, "name": "y", "type": "STRING NOT NULL"}],
            },
        ),
        (8, {"type": "MAP", "key": "STRING NOT NULL", "value": "BIGINT"}),
    ]
    assert table.schema.field("where").type == schema.field("where").type
    assert not table.schema.field("id").nullable
    assert table.history() == []
    assert table.read().read_all().num_rows == 0


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"primary_key": ["no"]}, SchemaError, "unknown column 'no'"),
        ({"primary_key": ["id", "id"]}, SchemaError, "twice"),
        ({"primary_key": ["t"]}, SchemaError, "nested"),
        ({"primary_key": ["dt"], "partition_by": ["dt"]}, SchemaError, "only partition columns"),
        ({"partition_by": ["bucket(8, id)"]}, SchemaError, "not by transforms"),
        (
            {"primary_key": ["id"], "partition_by": ["dt"], "options": {"bucket": "4"}},
            OptionError,
            "primary key lacks the partition columns dt",
        ),
        ({"options": {"bucket": "0"}}, OptionError, "bucket"),
        ({"options": {"bucket": "4"}}, OptionError, "bucket-key"),
        ({"options": {"bucket": "-2"}}, OptionError, "primary key"),
        ({"options": {"bucket": "2", "bucket-key": "t"}}, OptionError, "nested"),
        ({"options": {"bucket-key": "id"}}, OptionError, "fixed number of buckets"),
        ({"primary_key": ["id"], "options": {"bucket": "2", "bucket-key": "v"}}, OptionError, "not in the primary key"),
        ({"options": {"bucket": "2", "bucket-key": "v", "bucket-function.type": "mod"}}, OptionError, "INT or BIGINT"),
        ({"options": {"bukket": "4"}}, OptionError, "Did you mean 'bucket'"),
        ({"options": {"merge-engine": "partial"}}, OptionError, "partial-update"),
        ({"options": {"merge-engine": "first-row"}}, OptionError, "primary key"),
        ({"primary_key": ["id"], "options": {"sequence.field": "nope"}}, OptionError, "no column 'nope'"),
        ({"primary_key": ["id"], "options": {"rowkind.field": "id"}}, OptionError, "not a text"),
        (
            {"primary_key": ["id"], "options": {"merge-engine": "first-row", "sequence.field": "v"}},
            OptionError,
            "first row to arrive",
        ),
        (
            {"primary_key": ["id"], "options": {"fields.nope.aggregate-function": "sum"}},
            OptionError,
            "the table does not have",
        ),
    ],
)
def test_refused(tmp_path: Path, how: dict[str, Any], error: type[LakebedError], words: str) -> None:
    with pytest.raises(error, match=words.replace("(", r"\(")):
        lakebed.create(tmp_path / "t", "paimon", BASE, **how)
    assert not (tmp_path / "t/schema").exists()


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint64(), pa.time64("us"), pa.float16(), pa.duration("s"), pa.null()])
def test_types_that_paimon_lacks(tmp_path: Path, kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="column 'c'"):
        lakebed.create(tmp_path / "t", "paimon", pa.schema([("c", kind)]))


@pytest.mark.parametrize("name", ["_KEY_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "_row_kind", ""])
def test_names_that_paimon_keeps(tmp_path: Path, name: str) -> None:
    with pytest.raises(SchemaError):
        lakebed.create(tmp_path / "t", "paimon", pa.schema([(name, pa.int32())]))


def test_a_table_is_made_once(tmp_path: Path) -> None:
    lakebed.create(tmp_path / "t", "paimon", BASE)
    before = (tmp_path / "t/schema/schema-0").read_bytes()
    with pytest.raises(TableExistsError):
        lakebed.create(tmp_path / "t", "paimon", BASE)
    assert (tmp_path / "t/schema/schema-0").read_bytes() == before


def test_options_of_the_call_are_not_kept(tmp_path: Path) -> None:
    lakebed.create(
        tmp_path / "t", "paimon", BASE, options={"read.tasks": "1", "lakebed.storage.provider": "environment"}
    )
    assert json.loads((tmp_path / "t/schema/schema-0").read_text())["options"] == {}


def test_an_unknown_option_of_open_is_refused_but_a_stored_one_is_not(tmp_path: Path) -> None:
    lakebed.create(tmp_path / "t", "paimon", BASE)
    path = tmp_path / "t/schema/schema-0"
    stored = json.loads(path.read_text())
    stored["options"]["of-a-newer-paimon"] = "1"
    path.write_text(json.dumps(stored))
    assert lakebed.open(tmp_path / "t").read().read_all().num_rows == 0
    with pytest.raises(OptionError, match=r"scan\.snapshot-id"):
        lakebed.open(tmp_path / "t", {"scan.snapshotid": "1"})
