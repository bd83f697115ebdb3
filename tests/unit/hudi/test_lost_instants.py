"""Files of the timeline and of the metadata table that somebody removed or emptied: no row is missed without a word."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import CorruptError, ReadWarning
from lakebed.formats.hudi.table import HudiTable
from lakebed.model.report import Health
from lakebed.verbs.table import Table
from tests.unit.hudi.commit.test_concurrency import rows

SCHEMA = {"id": "int64", "dt": "string", "v": "string"}
KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
VERSIONS = [6, 8, 9]
STATES = ("requested", "inflight")
METADATA = ".hoodie/metadata/"


def written(folder: Path, version: int, kind: str, tagged: int = 0) -> Table:
    """Four commits of five rows, each to a partition of its own. A savepoint names commit number `tagged`."""
    options = {"hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind}
    table = lakebed.create(folder / "t", "hudi", SCHEMA, ["id"], ["dt"], options)
    for number in range(1, 5):
        table.write(rows(*range(number * 5, number * 5 + 5), dt=f"p{number}"), "upsert")
        if number == tagged:
            table.tag("kept")
    return table


def damaged(table: Table, path: str, empties: bool) -> HudiTable:
    """The table once a file is gone or empty."""
    table.store.delete(path)
    if empties:
        table.store.write(path, b"")
    found = lakebed.open(table.location)
    assert isinstance(found, HudiTable)
    return found


def completed_file(table: Table, number: int) -> str:
    """The completed file of a commit, by its number."""
    folder = table.state().config.timeline_folder  # type: ignore[attr-defined]
    names = sorted(
        name
        for name in table.store.list(folder).names
        if not name.endswith(STATES) and name.rpartition(".")[2] in ("commit", "deltacommit")
    )
    return f"{folder}/{names[number - 1]}"


def metadata_files(table: Table) -> Iterator[str]:
    """The completed instants of the metadata table, and the files of its listing."""
    for info in table.store.walk(METADATA.rstrip("/")):
        path = info.path.removeprefix(METADATA)
        if info.size and (path.startswith("files/") or path.endswith("commit")):
            yield info.path


@pytest.mark.parametrize("empties", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_savepoint_tells_that_its_instant_is_lost(tmp_path: Path, version: int, kind: str, empties: bool) -> None:
    """No write takes it back: its files would go with it."""
    table = written(tmp_path, version, kind, tagged=2)
    table = damaged(table, completed_file(table, 2), empties)
    with pytest.warns(ReadWarning) as seen:
        assert table.count() == 15
    assert any("names an instant that is not there as completed" in str(each.message) for each in seen)
    broken = [finding.what for finding in table.inspect().findings if finding.health is Health.BROKEN]
    assert any("names an instant that is not there" in what for what in broken)
    before = {info.path for info in table.store.walk()}
    with pytest.raises(CorruptError, match="a savepoint names an instant that is not complete"):
        table.write(rows(99, dt="p2"), "upsert")
    assert before == {info.path for info in table.store.walk()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_reads_tell_of_an_empty_completed_file(tmp_path: Path, version: int, kind: str) -> None:
    table = written(tmp_path, version, kind)
    path = completed_file(table, 2)
    table = damaged(table, path, empties=True)
    with pytest.warns(ReadWarning, match=f"{path.rpartition('/')[2]} is empty"):
        assert table.count() == 15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table.write(rows(99, dt="p2"), "upsert")  # takes it back, as any write that died
        assert table.count() == 16


@pytest.mark.parametrize("empties", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_metadata_table_that_lacks_a_file_is_not_used(tmp_path: Path, version: int, kind: str, empties: bool) -> None:
    """Whichever file of its timeline or of its listing is gone or empty: folders are listed, and every row is there."""
    table = written(tmp_path, version, kind)
    paths = [*metadata_files(table)]
    assert len(paths) > 8
    for path in paths:
        content = table.store.read(path)
        found = damaged(table, path, empties)
        assert (found.count(), found.changes().read_all().num_rows) == (20, 20), path
        table.store.write(path, content)
    state = lakebed.open(table.location).state()  # type: ignore[attr-defined]
    assert state.indexed_files is not None, "the whole one is used"
