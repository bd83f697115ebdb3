"""Writes whose rows have other columns than the table: added, widened, missing, dropped."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, SchemaError, UnsupportedError
from lakebed.formats.hudi.codec.avro_schema import with_meta_fields
from lakebed.formats.hudi.spark import SOURCE
from lakebed.formats.hudi.table import HudiTable
from lakebed.verbs.native_source import SinkRequest
from tests.tables.hudi.fresh import KINDS

COLUMNS = {"id": "string", "dt": "string", "n": "int32", "f": "float32"}
EVOLVE = {"lakebed.write.schema": "evolve"}
DROP = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}


def first(n: int = 1) -> pa.Table:
    return pa.table(
        {"id": ["a", "b"], "dt": ["x", "x"], "n": pa.array([n, n], pa.int32()), "f": pa.array([0.1, 0.5], pa.float32())}
    )


def table_of(folder: Path, version: int = 9, kind: str = "COPY_ON_WRITE") -> Any:
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    table = lakebed.create(folder, "hudi", COLUMNS, "id", "dt", options)
    table.write(first())
    return table


def rows_of(folder: Path, *columns: str) -> dict[str, Any]:
    found = lakebed.open(folder).read(["id", *columns]).read_all().sort_by("id")
    return {row["id"]: tuple(row[name] for name in columns) for row in found.to_pylist()}


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_columns_are_added_and_types_widened_beside_files_that_keep_theirs(
    tmp_path: Path, version: int, kind: str
) -> None:
    table = table_of(tmp_path, version, kind)
    wider = pa.table({"id": ["b", "c"], "dt": ["x", "x"], "n": [1 << 40, 3], "f": [0.25, 0.75], "s": ["s", None]})
    table.write(wider, mode="upsert", options=EVOLVE)
    schema = lakebed.open(tmp_path).schema
    assert [schema.field(name).type for name in ("n", "f", "s")] == [pa.int64(), pa.float64(), pa.string()]
    rows = {"a": (1, 0.1, None), "b": (1 << 40, 0.25, "s"), "c": (3, 0.75, None)}
    assert rows_of(tmp_path, "n", "f", "s") == rows
    lakebed.open(tmp_path).write(first(7).slice(0, 1).append_column("s", pa.array(["new"])), mode="upsert")
    lakebed.open(tmp_path).rewrite(options={"lakebed.rewrite.what": "compaction"}) if kind.startswith("M") else None
    assert rows_of(tmp_path, "n", "f", "s") == {**rows, "a": (7, pytest.approx(0.1), "new")}


def test_lakebeds_own_write_changes_no_columns_unless_told_so(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    with pytest.raises(SchemaError, match="does not have: s"):
        table.write(first().append_column("s", pa.array(["x", "y"])))
    table.write(first().set_column(2, "n", pa.array([5, 6])), mode="upsert")
    assert lakebed.open(tmp_path).schema.field("n").type == pa.int32()


def test_missing_columns_are_null_refused_or_dropped(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    short = pa.table({"id": ["c"], "dt": ["x"], "n": pa.array([1], pa.int32())})
    table.write(short, mode="upsert")
    assert rows_of(tmp_path, "f")["c"] == (None,)
    with pytest.raises(SchemaError, match="columns missing: f"):
        table.write(short, options={"hoodie.write.set.null.for.missing.columns": "false"})
    with pytest.raises(SchemaError, match="columns missing: id"):
        table.write(short.drop_columns(["id"]), options=DROP)
    table.write(short, mode="upsert", options=DROP)
    assert [name for name in lakebed.open(tmp_path).schema.names if not name.startswith("_")] == ["id", "dt", "n"]
    assert rows_of(tmp_path, "n") == {"a": (1,), "b": (1,), "c": (1,)}


def test_reconciled_rows_add_columns_and_lack_others(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    rows = pa.table({"id": ["a"], "dt": ["x"], "z": [True]})
    table.write(rows, mode="upsert", options={"hoodie.datasource.write.reconcile.schema": "true", **DROP})
    assert rows_of(tmp_path, "n", "z") == {"a": (None, True), "b": (1, None)}


def test_types_that_nothing_can_become_are_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    with pytest.raises(SchemaError, match="column 'f' is string"):
        table.write(first().set_column(3, "f", pa.array(["x", "y"])), options=EVOLVE)
    with pytest.raises(SchemaError, match="Avro does not allow"):
        table.write(first().append_column("a-b", pa.array([1, 2])), options=EVOLVE)


def test_numbers_become_texts_where_rows_bring_texts(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.write(first().slice(0, 1).set_column(2, "n", pa.array(["one"])), mode="upsert", options=EVOLVE)
    assert rows_of(tmp_path, "n") == {"a": ("one",), "b": ("1",)}


def test_the_texts_of_keys_and_paths_stay(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path, "hudi", {"id": "int32", "n": "int32"}, "id")
    table.write(pa.table({"id": [1], "n": [1]}))
    table.write(pa.table({"id": [1], "n": [2]}), mode="upsert", options=EVOLVE)
    assert lakebed.open(tmp_path).schema.field("id").type == pa.int64()
    with pytest.raises(SchemaError, match="column 'id' is double"):
        lakebed.open(tmp_path).write(pa.table({"id": [1.0], "n": [2]}), mode="upsert", options=EVOLVE)
    assert rows_of(tmp_path, "n") == {1: (2,)}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_statistics_of_files_of_another_type_leave_no_row_out(tmp_path: Path, kind: str) -> None:
    options = {"hoodie.metadata.enable": True, "hoodie.metadata.index.column.stats.enable": True,
               "hoodie.datasource.write.table.type": kind}  # fmt: skip
    table = lakebed.create(tmp_path, "hudi", COLUMNS, "id", "dt", options)
    table.write(first(9))
    table.write(first().slice(0, 1).set_column(2, "n", pa.array(["10"])), mode="upsert", options=EVOLVE)
    table.write(pa.table({"id": ["d"], "dt": ["y"], "n": ["11"]}), options={"hoodie.metadata.enable": True})
    found = {
        n: lakebed.open(tmp_path).read(["id"], where=f"n = '{n}'").read_all()["id"].to_pylist() for n in (9, 10, 11)
    }
    assert found == {9: ["b"], 10: ["a"], 11: ["d"]}


def test_a_write_that_began_before_columns_changed_loses(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    writer = lakebed.open(tmp_path).writer()
    writer.write(first(2))
    messages = writer.prepare_commit()
    table.write(first().append_column("s", pa.array(["x", "y"])), mode="upsert", options=EVOLVE)
    with pytest.raises(CommitConflictError, match="changed the table's columns"):
        writer.commit(1, messages)
    assert rows_of(tmp_path, "s") == {"a": ("x",), "b": ("y",)}


def test_a_write_that_does_not_know_its_rows_refuses_to_change_columns(tmp_path: Path) -> None:
    table_of(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for option in (EVOLVE, DROP, {"hoodie.write.set.null.for.missing.columns": "false"}):
        with pytest.raises(UnsupportedError, match=next(iter(option)).replace(".", r"\.")):
            lakebed.open(tmp_path, option).sink()
    assert sorted(tmp_path.rglob("*")) == before


def test_hudis_own_sink_evolves_by_default(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    assert isinstance(table, HudiTable)
    given = pa.schema([*(field.with_name(field.name.upper()) for field in first().schema), pa.field("s", pa.string())])
    assert SOURCE.sink is not None
    sink = SOURCE.sink(SinkRequest(table, str(tmp_path), given, {}, False))
    assert sink.input_schema.names == [*COLUMNS, "s"]


@pytest.mark.parametrize(("version", "kind"), [(6, "COPY_ON_WRITE"), (9, "MERGE_ON_READ")])
def test_fields_are_added_inside_of_columns(tmp_path: Path, version: int, kind: str) -> None:
    def shape(number: pa.DataType, *more: pa.Field) -> pa.Schema:
        struct = pa.struct([("u", number), *more])
        return pa.schema(
            [("id", pa.string()), ("s", struct), ("l", pa.list_(struct)), ("m", pa.map_("string", struct))]
        )

    def nested(key: str, schema: pa.Schema, **fields: Any) -> pa.Table:
        return pa.table({"id": [key], "s": [fields], "l": [[fields]], "m": [[("k", fields)]]}, schema)

    old, new = shape(pa.int32()), shape(pa.int64(), pa.field("w", pa.list_(pa.string())))
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    table = lakebed.create(tmp_path, "hudi", old, "id", options=options)
    table.write(pa.concat_tables([nested("a", old, u=1), nested("b", old, u=2)]))
    with pytest.raises(SchemaError, match="column 's' is struct"):
        table.write(nested("b", new, u=5, w=["x"]), mode="upsert")
    table.write(nested("b", new, u=1 << 40, w=["x"]), mode="upsert", options=EVOLVE)
    lakebed.open(tmp_path).write(nested("c", old, u=3), mode="upsert")
    rows = {"a": {"u": 1, "w": None}, "b": {"u": 1 << 40, "w": ["x"]}, "c": {"u": 3, "w": None}}
    assert rows_of(tmp_path, "s", "l", "m") == {key: (row, [row], [("k", row)]) for key, row in rows.items()}


def test_rows_of_known_columns_evolve_the_table(tmp_path: Path) -> None:
    table_of(tmp_path)
    table = lakebed.open(tmp_path, EVOLVE)
    sink = table.sink_for(pa.schema([("ID", pa.string()), ("dt", pa.string()), ("s", pa.string())]))
    assert sink.input_schema.names == ["id", "dt", "n", "f", "s"]


def test_the_first_rows_of_a_writer_say_which_columns_the_table_gets(tmp_path: Path) -> None:
    table_of(tmp_path)
    table = lakebed.open(tmp_path, EVOLVE)
    with table.writer("job") as writer:
        writer.write(first(5).slice(0, 1).append_column("s", pa.array(["new"])))
        messages = writer.prepare_commit()
        writer.write(first(6).slice(1))
        writer.commit(1, [*messages, *writer.prepare_commit()])
        assert writer.commit(1, []).instant == ""
    found = sorted((row["id"], row["n"], row["s"]) for row in lakebed.open(tmp_path).read().read_all().to_pylist())
    assert found == [("a", 1, None), ("a", 5, "new"), ("b", 1, None), ("b", 6, None)]


def test_meta_columns_that_a_release_records_of_a_delete_are_not_carried_on(tmp_path: Path) -> None:
    table = table_of(tmp_path, version=6)
    (file,) = (tmp_path / ".hoodie").glob("*.commit")
    commit = json.loads(file.read_text())
    commit["extraMetadata"]["schema"] = with_meta_fields(commit["extraMetadata"]["schema"])
    file.write_text(json.dumps(commit))
    table = lakebed.open(tmp_path)
    table.write(first(2), mode="upsert")
    table.rewrite(options={"lakebed.rewrite.what": "clustering"})
    for newer in sorted(f for f in (tmp_path / ".hoodie").glob("*.*commit") if f.name > file.name):
        record = json.loads(json.loads(newer.read_text())["extraMetadata"]["schema"])
        assert [field["name"] for field in record["fields"]] == [*COLUMNS], newer.name
