"""The system tables of Hudi's golden tables say what Hudi's own state files and folders say."""

import json
from typing import Any

import pytest

import lakebed
from lakebed.errors import UsageError
from tests.golden import unpack

NAMES = ("commits", "file_groups", "files", "partitions", "properties", "savepoints", "timeline")


def rows(table: lakebed.Table, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.metadata(name).read_all().to_pylist()
    return found


@pytest.mark.parametrize("name", ["mor_v6", "cow_v6", "merge_commit_v6", "archived_v6"])
def test_commits_are_those_of_the_state_files(name: str) -> None:
    folder = unpack("hudi", name)
    table, written = lakebed.open(folder), {}
    for file in (folder / ".hoodie").iterdir():
        if file.suffix in (".commit", ".deltacommit", ".replacecommit"):
            written[file.stem] = json.loads(file.read_text())
    commits = rows(table, "commits")
    assert {row["instant_time"] for row in commits} == set(written) and written
    for row in commits:
        raw = written[row["instant_time"]]
        stats = [stat for of_partition in raw["partitionToWriteStats"].values() for stat in of_partition]
        assert row["total_records_written"] == sum(stat["numWrites"] for stat in stats)
        assert row["total_bytes_written"] == sum(stat["fileSizeInBytes"] for stat in stats)
        assert row["total_files_added"] == sum(stat["prevCommit"] in (None, "null") for stat in stats)
        assert row["total_files_added"] + row["total_files_updated"] == len(stats)
        assert row["operation"] == raw["operationType"]
        replaced = raw.get("partitionToReplaceFileIds") or {}
        assert row["total_file_groups_replaced"] == sum(map(len, replaced.values()))


@pytest.mark.parametrize("name", ["mor_v6", "mor_v8", "mor_v9", "cow_v9"])
def test_files_are_those_of_the_folder(name: str) -> None:
    folder = unpack("hudi", name)
    table = lakebed.open(folder)
    assert table.metadata_names == NAMES
    files = rows(table, "files")
    assert files and all((folder / row["file_path"]).stat().st_size == row["file_size_in_bytes"] for row in files)
    assert {row["instant_time"] for row in files} <= {instant.time for instant in table.history(archived=True)}
    groups, partitions = rows(table, "file_groups"), rows(table, "partitions")
    assert sum(row["log_files"] + (row["base_file"] is not None) for row in groups) == len(files)
    assert sum(row["file_size_in_bytes"] for row in partitions) == sum(row["file_size_in_bytes"] for row in files)
    assert sum(row["file_groups"] for row in partitions) == len(groups)
    properties = {row["key"]: row["value"] for row in rows(table, "properties")}
    lines = (folder / ".hoodie/hoodie.properties").read_text().splitlines()
    assert f"hoodie.table.version={properties['hoodie.table.version']}" in lines


def test_the_timeline_has_archived_instants() -> None:
    table = lakebed.open(unpack("hudi", "archived_v9"))
    timeline = rows(table, "timeline")
    assert [row["instant_time"] for row in timeline] == [instant.time for instant in table.history(archived=True)]
    assert {row["archived"] for row in timeline} == {True, False}
    assert rows(lakebed.open(unpack("hudi", "mor_v8")), "savepoints")[0]["name"] == "golden"
    with pytest.raises(UsageError, match="Did you mean 'timeline'"):
        table.metadata("timelines")
