"""The metadata tables of every golden table have the rows that Spark gave when it wrote the table."""

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import lakebed
from lakebed.errors import UsageError
from tests.golden import expected, names, opening, unpack
from tests.tables.iceberg.place import WRITTEN_AT

TABLES = [name for name in names("iceberg") if name != "uuid_time_fixed"]  # Spark refuses its time column
RELAID = {"length", "file_size_in_bytes", "lower_bounds", "upper_bounds"}
"""What laying a table changes: the sizes of manifests, and the sizes and bounds of delete files."""


def plain(value: Any, table: Path) -> Any:
    """Our values as the expected files spell them."""
    match value:
        case bytes():
            return {"$bin": value.hex()}
        case datetime.datetime():
            zone = value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)
            return {"$ts": zone.isoformat()}
        case datetime.date():
            return {"$date": value.isoformat()}
        case str():
            raw = str(table.with_name("raw"))
            return value.removeprefix("file:").replace(str(table) + "/", "").replace(raw, f"{WRITTEN_AT}/raw")
        case list() if value and isinstance(value[0], tuple):
            return {"$map": sorted([[key, plain(item, table)] for key, item in value], key=lambda pair: str(pair[0]))}
        case list():
            return [plain(item, table) for item in value]
        case dict():
            return {key: plain(item, table) for key, item in value.items()}
    return value


def rows(table: Path, name: str, wanted: list[dict[str, Any]]) -> list[str]:
    """Our rows with the columns that the expected rows have, as sorted texts."""
    found = lakebed.open(str(table), opening(table)).metadata(name).read_all()
    flat = [{**row, **row.get("data_file", {})} for row in (plain(row, table) for row in found.to_pylist())]
    return sorted(text(row, set(wanted[0])) for row in flat)


def text(row: dict[str, Any], fields: set[str]) -> str:
    """A row as text, without what laying a table changed."""
    relaid = RELAID if row.get("content") or "partition_spec_id" in fields else set()
    return json.dumps({field: _spelled(row[field]) for field in sorted(fields - relaid)}, sort_keys=True)


def _spelled(value: Any) -> Any:
    if isinstance(value, dict) and "$map" not in value:
        return {key: _spelled(item) for key, item in value.items()}
    if value == {"$map": []}:
        return []
    return value.removeprefix("file:") if isinstance(value, str) else value


@pytest.mark.parametrize("name", TABLES)
def test_each_is_that_of_spark(name: str) -> None:
    table = unpack("iceberg", name)
    answers = json.loads((expected(table) / "files.json").read_text(encoding="utf-8"))
    history = expected(table) / "history.json"
    if history.exists():
        answers["history"] = json.loads(history.read_text(encoding="utf-8"))
    for system_table, wanted in answers.items():
        if wanted:
            theirs = sorted(text(row, set(wanted[0])) for row in wanted)
            assert rows(table, system_table, wanted) == theirs, system_table
        else:
            assert not lakebed.open(str(table), opening(table)).metadata(system_table).read_all().num_rows


def test_names_types_and_branches() -> None:
    table = unpack("iceberg", "branches_tags")
    main, audit = lakebed.open(str(table)), lakebed.open(str(table), {"branch": "audit"})
    assert len(main.metadata_names) == 16 and main.metadata("$FILES").read_all() == main.metadata("files").read_all()
    with pytest.raises(UsageError, match=r"no metadata table 'snapshot'.*Did you mean 'snapshots'.*all_data_files, "):
        main.metadata("snapshot")
    with pytest.raises(UsageError, match="a int is not a metadata table"):
        main.metadata(3)  # type: ignore[arg-type]
    files = [set(each.metadata("files").read_all()["file_path"].to_pylist()) for each in (main, audit)]
    heads = {ref["name"]: ref["snapshot_id"] for ref in main.metadata("refs").read_all().to_pylist()}
    assert files[0] != files[1] and heads["main"] != heads["audit"]
    logged = main.metadata("metadata_log_entries").read_all()
    assert logged["latest_snapshot_id"].to_pylist()[-1] == heads["main"]
    kinds = {field.name: str(field.type) for field in main.system_table("files").schema}
    assert kinds["column_sizes"] == "map<int32, int64>" and kinds["content"] == "int32"


def test_partitions_sum_up_the_files() -> None:
    for name in ("pos_deletes", "spec_evolution", "eq_deletes_part", "types_nested", "transforms_time"):
        opened = lakebed.open(str(unpack("iceberg", name)))
        files, partitions = (opened.metadata(each).read_all() for each in ("files", "partitions"))
        data = files.filter(pc.equal(files["content"], 0))
        for column, own in (
            ("record_count", "record_count"), ("total_data_file_size_in_bytes", "file_size_in_bytes")
        ):  # fmt: skip
            assert pc.sum(partitions[column]) == pc.sum(data[own]), name
        counts = [pc.sum(pc.equal(files["content"], content)).as_py() for content in range(3)]
        kinds = ("file_count", "position_delete_file_count", "equality_delete_file_count")
        assert [pc.sum(partitions[kind]).as_py() for kind in kinds] == counts
        if "partition" in partitions.column_names:
            assert len(partitions) == len({str(value) for value in files["partition"].to_pylist()})


def test_an_empty_table_has_columns() -> None:
    empty = lakebed.open(str(unpack("iceberg", "never_written")))
    logged = {"metadata_log_entries"}
    assert {name for name in empty.metadata_names if empty.metadata(name).read_all().num_rows} == logged


def test_position_deletes_name_what_readers_leave_out() -> None:
    for name in ("pos_deletes", "dv_v3", "eq_deletes_part", "v2_upgraded_v3", "mixed_formats"):
        opened = lakebed.open(str(unpack("iceberg", name)))
        files, deletes = (opened.metadata(each).read_all() for each in ("delete_files", "position_deletes"))
        positional = files.filter(pc.equal(files["content"], 1))
        assert len(deletes) == pc.sum(positional["record_count"]).as_py() > 0, name
        assert set(deletes["delete_file_path"].to_pylist()) == set(positional["file_path"].to_pylist())
        assert deletes["row"].null_count == len(deletes)
