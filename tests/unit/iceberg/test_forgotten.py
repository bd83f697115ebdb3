"""Tables whose metadata was cleaned up: it lacks schemas and partition specs that files were written with. Spark's
`expire_snapshots(clean_expired_metadata => true)` leaves such tables."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, UnsupportedError
from tests.tables.iceberg.lake import Lake

ROWS = pa.schema([("k", pa.int32()), ("reg", pa.string()), ("n", pa.int32())])
DATA = pa.table({"k": [1, 2, 3], "reg": ["us", "eu", "eu"], "n": [1, 2, 3]}, schema=ROWS)


def forgotten(folder: Path, by: list[str], schemas: bool = True, specs: bool = False) -> Any:
    """A table that was partitioned by columns that have been dropped, without the schema and the spec of that time."""
    table: Any = lakebed.create(folder, "iceberg", ROWS, partition_by=by)
    table.write(DATA)
    lake = Lake.at(str(folder))
    partition = ("eu",) if by == ["reg"] else None
    if partition is not None:  # a delete that holds for one partition alone
        lake.delete_equal([{"k": 2}, {"k": 1}], partition)
    newest = max((folder / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    document = json.loads(newest.read_text())
    schema = json.loads(json.dumps(document["schemas"][0])) | {"schema-id": 1}
    schema["fields"] = schema["fields"][:1]
    document["schemas"] = [schema] if schemas else [*document["schemas"], schema]
    document["current-schema-id"] = 1
    document["partition-specs"] = [*([] if specs else document["partition-specs"]), {"spec-id": 1, "fields": []}]
    document["default-spec-id"] = 1
    newest.write_text(json.dumps(document))
    return lakebed.open(folder)


def ids(table: Any) -> list[int]:
    return sorted(table.read().read_all()["k"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("specs", [False, True], ids=["schema", "schema and spec"])
@pytest.mark.parametrize("by", [["reg"], ["n"], ["bucket(4, n)", "reg"], ["truncate(1, reg)"]], ids=str)
def test_it_is_read_and_changed(by: list[str], specs: bool, tmp_path: Path) -> None:
    table = forgotten(tmp_path / "t", by, specs=specs)
    rows = [1, 3] if by == ["reg"] else [1, 2, 3]  # k = 1 is in another partition than the delete
    assert ids(table) == rows
    assert table.read(where="k > 1").read_all().num_rows == len(rows) - 1
    assert table.changes().read_all().num_rows == len(rows)
    table.write(pa.table({"k": pa.array([4], pa.int32())}))
    table.write(pa.table({"k": pa.array([4], pa.int32())}), "delete", {"upsert.keys": "k"})
    assert ids(table) == rows and table.inspect().findings is not None
    table.rewrite(options={"lakebed.rewrite.what": "manifests"})
    assert ids(table) == rows
    done = table.expire(options={"older-than": "2100-01-01", "clean-expired-metadata": "true"})
    assert ids(table) == rows and done.expired
    assert table.rewrite(options={"rewrite-all": "true"}).groups and ids(table) == rows
    table.expire(options={"expire-snapshots": "false", "remove-orphan-files": "true"})
    assert ids(table) == rows


@pytest.mark.slow
def test_cleaning_keeps_the_schema_that_partitions_need(tmp_path: Path) -> None:
    table = forgotten(tmp_path / "t", ["reg"], schemas=False)
    table.write(pa.table({"k": pa.array([4], pa.int32())}))
    table.expire(options={"older-than": "2100-01-01", "clean-expired-metadata": "true"})
    assert set(table.table_metadata.schemas) == {0, 1} and ids(table) == [1, 3, 4]
    table.rewrite(options={"rewrite-all": "true", "remove-dangling-deletes": "true"})
    table.write(pa.table({"k": pa.array([5], pa.int32())}))  # leaves out manifests that only record removals
    table.expire(options={"older-than": "2100-01-01", "clean-expired-metadata": "true"})
    assert (
        set(table.table_metadata.schemas) == {1}
        and set(table.table_metadata.specs) == {1}
        and ids(table) == [1, 3, 4, 5]
    )


def test_a_snapshot_whose_schema_is_gone_says_so(tmp_path: Path) -> None:
    table = forgotten(tmp_path / "t", ["n"])
    with pytest.raises((UnsupportedError, CorruptError), match="the schema of this snapshot was removed"):
        table.read(as_of=table.history()[0])
