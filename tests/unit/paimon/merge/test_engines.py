"""Merge engines as a whole table shows them: what removes a row, what folds arrays and maps, what is refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import LakebedError, OptionError, UnsupportedError, UsageError
from tests.tables.paimon.small import SCHEMA, Make, contents, rows

GROUPS = {
    "merge__engine": "partial-update",
    "fields_n_sequence__group": "v",
    "partial__update_remove__record__on__sequence__group": "n",
}


def test_a_delete_that_wins_its_group_removes_the_row(make: Make) -> None:
    table = make(**GROUPS)
    table.write(rows(("a", 1, "v1", 5), ("a", 2, "w", 5), ("a", 3, "x", 5)))
    table.write(rows(("a", 1, None, 4), ("a", 2, None, 5), ("a", 3, None, None), kinds=["-D"] * 3))
    assert contents(table) == [("a", 1, "v1", 5), ("a", 3, "x", 5)]
    table.write(rows(("a", 2, "back", 1)))  # what came before the delete is forgotten, its sequence too
    assert contents(table) == [("a", 1, "v1", 5), ("a", 2, "back", 1), ("a", 3, "x", 5)]
    table.write(rows(("a", 4, "y", 1), ("a", 4, "y", 2), ("a", 4, None, 2), kinds=["+I", "+U", "-D"]))
    assert [row[1] for row in contents(table)] == [1, 2, 3]


def test_one_write_or_many_remove_the_same(make: Make) -> None:
    script = [
        ("+I", 1, "a", 3), ("-D", 1, None, 2), ("-D", 1, None, 3), ("+I", 1, "b", 1), ("+U", 1, "c", 0),
        ("+I", 2, "a", 1), ("-U", 2, None, 1), ("-D", 2, None, 2), ("+I", 3, "a", None), ("-D", 3, None, 1),
    ]  # fmt: skip
    data = rows(*(("a", key, v, n) for _, key, v, n in script), kinds=[kind for kind, *_ in script])
    whole, single = make(**GROUPS), make(**GROUPS)
    whole.write(data)
    for place in range(len(script)):
        single.write(data.slice(place, 1))
    assert contents(whole) == contents(single) == [("a", 1, "b", 1)]


@pytest.mark.parametrize(
    "options",
    [
        {"partial-update.remove-record-on-sequence-group": "v"},
        {"partial-update.remove-record-on-delete": "true", "fields.n.sequence-group": "v"},
        {"partial-update.remove-record-on-delete": "true", "ignore-delete": "true"},
        {"fields.n.sequence-group": "v", "fields.v.sequence-group": "n"},
        {"fields.n.sequence-group": "id"},
        {"fields.n.sequence-group": "nowhere"},
        {"fields.v.aggregate-function": "max"},
        {"fields.v.agregate-function": "max"},
    ],
)
def test_partial_update_options_that_do_not_go_together(tmp_path: Path, options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["id"], (), {"merge-engine": "partial-update", **options})
    assert not (tmp_path / "t" / "schema").exists()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("hll_sketch", "it takes VARBINARY"), ("theta_sketch", "it takes"), ("rbm64", "it takes"),
        ("merge_map_with_keytime", "1.3.1"), ("summ", "one of sum"), ("sum", "it takes"), ("collect", "it takes"),
    ],
)  # fmt: skip
def test_an_aggregate_function_that_is_not_there(tmp_path: Path, function: str, why: str) -> None:
    options = {"merge-engine": "aggregation", "fields.v.aggregate-function": function}
    with pytest.raises((UnsupportedError, OptionError), match=why):
        lakebed.create(tmp_path / "t", "paimon", SCHEMA, ["id"], (), options)


NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), False),
        ("orders", pa.list_(pa.struct([("no", pa.int32()), ("item", pa.string())]))),
        ("tags", pa.list_(pa.string())),
        ("props", pa.map_(pa.string(), pa.int32())),
        ("words", pa.string()),
        ("times", pa.int64()),
    ]
)
FUNCTIONS = {
    "merge-engine": "aggregation",
    "fields.orders.aggregate-function": "nested_update",
    "fields.orders.nested-key": "no",
    "fields.tags.aggregate-function": "collect",
    "fields.tags.distinct": "true",
    "fields.props.aggregate-function": "merge_map",
    "fields.words.aggregate-function": "listagg",
    "fields.words.list-agg-delimiter": "|",
    "fields.words.ignore-retract": "true",
    "fields.times.aggregate-function": "product",
}


def nested(kind: str, orders: Any, tags: Any, props: Any, words: Any, times: Any) -> dict[str, Any]:
    pairs = [{"no": no, "item": item} for no, item in orders]
    return {
        "id": 1, "orders": pairs, "tags": tags, "props": list(props.items()), "words": words, "times": times,
        "_row_kind": kind,
    }  # fmt: skip


SCRIPT = [
    nested("+I", [(1, "a"), (2, "b")], ["x", "y"], {"k": 1}, "one", 2),
    nested("+U", [(1, "c")], ["y", "z"], {"k": 2, "l": 3}, "two", 3),
    nested("-U", [(2, "b")], ["x"], {"l": 3}, "two", 2),
]


@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_arrays_and_maps_are_folded(tmp_path: Path, once: bool, file_format: str) -> None:
    options = {**FUNCTIONS, "bucket": "1", "file.format": file_format}
    table = lakebed.create(tmp_path / "t", "paimon", NESTED, ["id"], options=options)
    schema = NESTED.append(pa.field("_row_kind", pa.string()))
    for part in [SCRIPT] if once else [[row] for row in SCRIPT]:
        table.write(pa.Table.from_pylist(part, schema=schema))
    (found,) = table.read().read_all().to_pylist()
    assert found["orders"] == [{"no": 1, "item": "c"}]
    assert sorted(found["tags"]) == ["y", "z"]
    assert found["props"] == [("k", 2)]
    assert (found["words"], found["times"]) == ("one|two", 3)


def test_a_retraction_that_cannot_be_taken_back_names_the_way_out(make: Make) -> None:
    table = make(merge__engine="aggregation", fields_n_aggregate__function="max")
    table.write(rows(("a", 1, "v", 1)))
    table.write(rows(("a", 1, "v", 1), kinds=["-D"]))
    with pytest.raises(LakebedError, match=r"fields\.n\.ignore-retract=true"):
        contents(table)
    assert contents(lakebed.open(table.location, {"fields.n.ignore-retract": "true"})) == [("a", 1, None, 1)]


def test_a_delete_removes_an_aggregated_row(make: Make) -> None:
    table = make(
        merge__engine="aggregation", fields_n_aggregate__function="max", aggregation_remove__record__on__delete="true"
    )
    table.write(rows(("a", 1, "v", 9), ("a", 2, "w", 9)))
    table.write(rows(("a", 1, None, None), kinds=["-D"]))
    table.write(rows(("a", 2, None, None), kinds=["-D"]))
    table.write(rows(("a", 2, "new", 1)))
    assert contents(table) == [("a", 2, "new", 1)]


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
def test_every_engine_can_ignore_deletes(make: Make, engine: str) -> None:
    table = make(bucket="-2", merge__engine=engine, ignore__delete="true")
    table.write(rows(("a", 1, "v", 1)))
    table.write(rows(("a", 1, "v", 1), ("a", 2, "w", 1), kinds=["-D", "-U"]))
    table.rewrite()
    assert contents(table) == [("a", 1, "v", 1)]
