"""A write cleans, archives and compacts afterwards, where that is due and the options say so."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed import Table
from lakebed.callbacks import Committed
from lakebed.errors import OptionError
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel import clock

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])


def written(folder: Path, commits: int, kind: str = "COPY_ON_WRITE", **options: object) -> Table:
    table = lakebed.create(
        folder, "hudi", SCHEMA, primary_key=["id"], options={"hoodie.datasource.write.table.type": kind}
    )
    given = {key.replace("_", "."): value for key, value in options.items()}
    for value in range(commits):
        result = table.write(pa.table({"id": [1, 2], "v": [value] * 2}, SCHEMA), mode="upsert", options=given)
        assert result.notes == ()
    return table


def actions(table: Table) -> Counter[str]:
    return Counter(instant.action for instant in table.history())


def rows(table: Table) -> list[int]:
    read: list[int] = table.read(["v"]).read_all()["v"].to_pylist()
    return read


def test_a_write_cleans_by_default(tmp_path: Path) -> None:
    table = written(tmp_path / "table", 13)
    assert actions(table)["clean"] > 0 and rows(table) == [12, 12]
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 11  # ten commits, and the state before them


def test_a_write_archives_what_is_too_much(tmp_path: Path) -> None:
    bounds = {"hoodie.keep.max.commits": 5, "hoodie.keep.min.commits": 4, "hoodie.clean.commits.retained": 2}
    table = written(tmp_path / "table", 12, **bounds)
    assert actions(table)["commit"] <= 6 and rows(table) == [11, 11]
    assert len([i for i in table.history(archived=True) if i.action == "commit"]) == 12


def test_upkeep_can_be_left_to_others(tmp_path: Path) -> None:
    options = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": "false", "hoodie.keep.max.commits": 5,
               "hoodie.keep.min.commits": 4}  # fmt: skip
    table = written(tmp_path / "table", 13, **options)
    assert actions(table) == {"commit": 13}


def test_a_write_compacts_where_it_is_told_to(tmp_path: Path) -> None:
    options = {"hoodie.compact.inline": True, "hoodie.compact.inline.max.delta.commits": 3}
    table = written(tmp_path / "table", 7, "MERGE_ON_READ", **options)
    assert actions(table)["commit"] == 2 and rows(table) == [6, 6]
    assert "commit" not in actions(written(tmp_path / "other", 7, "MERGE_ON_READ"))


def test_a_failure_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = written(tmp_path / "table", 1)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(HudiTable, "expire", fail)
    result = table.write(pa.table({"id": [1], "v": [7]}, SCHEMA), mode="upsert")
    assert any("the table was not cleaned" in note for note in result.notes)
    assert sorted(rows(table)) == [0, 7]


def test_wrong_options_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    table = written(tmp_path / "table", 1)
    for wrong in ({"hoodie.clean.commits.retained": "many"}, {"hoodie.compact.inlin": True}):
        with pytest.raises(OptionError):
            table.write(pa.table({"id": [1], "v": [7]}, SCHEMA), mode="upsert", options=wrong)
    assert len(table.history()) == 1


def test_callbacks_see_each_commit(tmp_path: Path) -> None:
    class Seen:
        commits: list[Committed] = []  # noqa: RUF012 - of this test alone

        def call(self, commit: Committed) -> None:
            self.commits.append(commit)

    table = written(tmp_path / "table", 0)
    writer = table.writer("job", callbacks=[Seen()])
    writer.write(pa.table({"id": [1], "v": [7]}, SCHEMA))
    done = writer.commit(3, writer.prepare_commit())
    (commit,) = Seen.commits
    assert (str(commit.snapshot_id), commit.commit_user, commit.identifier) == (done.instant, "job", 3)
    assert commit.kind == "insert" and all((tmp_path / "table" / path).exists() for path in commit.added_files)


def test_a_write_clusters_after_so_many_commits(tmp_path: Path) -> None:
    options = {
        "hoodie.clustering.inline": True,
        "hoodie.clustering.inline.max.commits": 3,
        "hoodie.parquet.small.file.limit": 0,
        "hoodie.clean.automatic": False,
    }
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, primary_key=["id"])
    for value in range(7):
        assert table.write(pa.table({"id": [value], "v": [value]}, SCHEMA), options=options).notes == ()
    assert actions(table) == {"commit": 7, "replacecommit": 2} and sorted(rows(table)) == [*range(7)]


def test_a_write_can_plan_services_for_another_job(tmp_path: Path) -> None:
    options = {
        "hoodie_compact_schedule_inline": True,
        "hoodie_compact_inline_max_delta_commits": 2,
        "hoodie_clustering_schedule_inline": True,
        "hoodie_clustering_inline_max_commits": 1,
    }
    table = written(tmp_path / "t", 4, "MERGE_ON_READ", **options)
    assert actions(table)["compaction"] == 1 and actions(table)["clustering"] == 0
    with_files = {"hoodie.clustering.schedule.inline": True, "hoodie.clustering.inline.max.commits": 1}
    clustered = lakebed.create(tmp_path / "c", "hudi", SCHEMA, primary_key=["id"])
    for number in range(3):
        more = {**with_files, "hoodie.parquet.small.file.limit": 0}
        assert clustered.write(pa.table({"id": [number], "v": [0]}, SCHEMA), options=more).notes == ()
    assert actions(clustered) == {"commit": 3, "clustering": 1}


def test_a_write_deletes_partitions_that_are_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lakebed.create(tmp_path / "t", "hudi", SCHEMA, primary_key=["id"], partition_by=["v"])
    old = time.time() - 30 * 86400
    with monkeypatch.context() as patch:
        patch.setattr(clock, "now", lambda: old)
        table.write(pa.table({"id": [1], "v": [1]}, SCHEMA))
    ttl = {"hoodie.partition.ttl.inline": True, "hoodie.partition.ttl.strategy.days.retain": 7}
    assert table.write(pa.table({"id": [2], "v": [2]}, SCHEMA), options=ttl).notes == ()
    assert rows(table) == [2] and actions(table) == {"commit": 2, "replacecommit": 1}


def test_a_write_compacts_logs_of_many_blocks(tmp_path: Path) -> None:
    options = {"hoodie_log_compaction_inline": True, "hoodie_log_compaction_blocks_threshold": 3}
    table = written(tmp_path / "t", 5, "MERGE_ON_READ", **options)
    assert actions(table) == {"deltacommit": 6} and rows(table) == [4, 4]
