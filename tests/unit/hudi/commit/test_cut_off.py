"""Services whose completed state file is empty, as `kill -9` of a writer leaves it: they end when they run again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.hudi.codec.properties import parse_properties
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
QUIET = {"hoodie.clean.automatic": "false"}
CLEAN = {"hoodie.clean.commits.retained": 1}
FAILED = {"lakebed.expire.what": "failed-writes", "lakebed.expire.failed.after": "0 s"}


def table_of(folder: Path, version: int) -> lakebed.Table:
    """A table of three commits, of which the first has a tag."""
    fresh_table(folder, SCHEMA, version=version, kind="COPY_ON_WRITE")
    table = lakebed.open(folder)
    for value in range(3):
        rows = [{"dt": "ab"[n % 2], "id": n, "v": str(value)} for n in range(4)]
        table.write(pa.Table.from_pylist(rows, SCHEMA), mode="upsert", options=QUIET)
        if not value:
            table.tag("first")
    return table


def values(table: lakebed.Table) -> list[str]:
    return table.read(["v"]).read_all()["v"].to_pylist()


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("action", ["clean", "rollback", "restore"])
def test_a_service_ends_whose_completed_file_is_empty(action: str, version: int, tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", version)
    timeline = tmp_path / "t/.hoodie" / ("timeline" if version == 9 else "")
    if action == "clean":
        table.delete_tag("first")
        assert table.expire(options={**CLEAN, "hoodie.cleaner.incremental.mode": "false"}).deleted_files
    elif action == "rollback":
        (timeline / "20200101000000000.commit.requested").touch()
        assert table.expire(options=FAILED).expired
    else:
        table.rollback("tag:first")
    before = values(table)
    (done,) = timeline.glob(f"*.{action}")
    done.write_bytes(b"")
    assert [i.action for i in table.history() if i.state != "completed"] == [action]
    table.expire(options=CLEAN if action == "clean" else FAILED)
    assert all(i.state == "completed" for i in table.history())
    (again,) = timeline.glob(f"*.{action}")
    assert again.stat().st_size
    assert values(table) == before


def test_a_metadata_table_whose_restore_was_cut_off_is_built_again(tmp_path: Path) -> None:
    """Hudi's own writers refuse to write it until then."""
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, primary_key=["id"], partition_by=["dt"])
    rows = pa.table({"dt": ["a", "b"], "id": [1, 2], "v": ["x", "y"]}, SCHEMA)
    table.write(rows, mode="upsert", options=QUIET)
    timeline = tmp_path / "t/.hoodie/metadata/.hoodie/timeline"
    (timeline / "20300101000000000.restore.requested").touch()
    noted = table.write(rows, mode="upsert", options=QUIET)
    assert any("restore of it was cut off" in note for note in noted.notes)
    table.write(rows, mode="upsert", options=QUIET)
    assert not [*timeline.glob("*.restore*")]
    named = parse_properties((tmp_path / "t/.hoodie/hoodie.properties").read_bytes())
    assert "files" in named["hoodie.table.metadata.partitions"]
    assert len(table.read().read_all()) == 2
