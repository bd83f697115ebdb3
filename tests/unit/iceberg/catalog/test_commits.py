"""Every kind of commit through every kind of catalog gives the same table as by path, step by step."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.errors import CommitConflictError, NotInHistoryError, TableExistsError, TableNotFoundError
from lakebed.formats.iceberg.catalog import file_io
from lakebed.formats.iceberg.catalog import table as table_module
from lakebed.formats.iceberg.catalog.table import LostRaceError
from lakebed.formats.iceberg.codec.updates import ref_is
from tests.tables.iceberg import commits
from tests.tables.iceberg.rest_server import Failure, RestCatalog
from tests.tables.iceberg.small import create, data_file, ids
from tests.tables.iceberg.steps import made, story
from tests.unit.iceberg.catalog.conftest import Glue, options_of
from tests.unit.kernel.conftest import bucket, s3_options

__all__ = ["bucket", "s3_options"]
VERSIONS = pytest.mark.parametrize("version", [1, 2, 3])


@pytest.fixture(scope="module")
def by_path(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Any]]:
    """The same steps on tables that are opened by path."""
    folder = tmp_path_factory.mktemp("path")
    return {version: story(made(folder / f"v{version}", version, {}), version) for version in (1, 2, 3)}


@pytest.mark.slow
@VERSIONS
def test_a_tables_life(by_path: dict[int, list[Any]], catalog: dict[str, str], version: int) -> None:
    table = made(f"cat:db.t{secrets.token_hex(4)}", version, catalog)
    assert table.table_metadata.format_version == version
    assert table.table_metadata.properties["commit.manifest.min-count-to-merge"] == "3"
    assert not any(key.startswith("lakebed.catalog") for key in table.table_metadata.properties)
    told = story(table, version)
    assert told == by_path[version]
    again = lakebed.open(table.operations.name, catalog)
    assert sorted(map(str, again.read().read_all().to_pylist())) == told[-2][0] and len(told[-2][0]) > 5


@pytest.mark.slow
def test_what_is_there_or_not(catalog: dict[str, str]) -> None:
    name = f"cat:db.t{secrets.token_hex(4)}"
    with pytest.raises(TableNotFoundError, match=r"has no table .*Check the spelling"):
        lakebed.open(name, catalog)
    table = create(name, 2, **catalog)
    with pytest.raises(TableExistsError, match=r"Open it with lakebed\.open"):
        create(name, 2, **catalog)
    with pytest.raises(NotInHistoryError):
        table.delete_tag("none")


@pytest.mark.slow
def test_a_commit_on_what_is_no_longer_current(catalog: dict[str, str]) -> None:
    table = create(f"cat:db.t{secrets.token_hex(4)}", 3, **catalog)
    base = table.operations.load()
    commits.append(lakebed.open(table.operations.name, catalog).operations, [data_file(table, [1])])  # type: ignore[attr-defined]
    files = set(Path(table.location, "metadata").iterdir())
    with pytest.raises(LostRaceError):
        table.operations.commit(base, [ref_is("main", None)], [{"action": "set-properties", "updates": {"a": "b"}}])
    assert set(Path(table.location, "metadata").iterdir()) == files
    commits.append(table.operations, [data_file(table, [2])])
    assert ids(table) == [1, 2] and "a" not in table.table_metadata.properties


@pytest.mark.slow
def test_writers_at_the_same_time(catalog: dict[str, str]) -> None:
    table = create(f"cat:db.t{secrets.token_hex(4)}", 3, **catalog, **{"commit.retry.num-retries": "60"})
    files = [data_file(table, [number]) for number in range(8)]
    failures: list[Exception] = []

    def write(operations: Any, number: int) -> None:
        try:
            commits.append(operations, [files[number]])
        except Exception as error:
            failures.append(error)

    other: Any = lakebed.open(table.operations.name, catalog)
    threads = [threading.Thread(target=write, args=([table, other][n % 2].operations, n)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert ids(table) == list(range(8)) and len(table.history()) == 8
    assert table.table_metadata.next_row_id == 8


@pytest.mark.slow
def test_glue_with_tables_on_s3(
    by_path: dict[int, list[Any]], glue: Glue, bucket: str, s3_options: dict[str, str]
) -> None:
    glue.warehouse = bucket
    table = made(f"cat:db.t{secrets.token_hex(4)}", 3, {**options_of(glue), **s3_options})
    assert table.location.startswith(bucket)
    assert story(table, 3) == by_path[3]


def test_a_deleted_table_is_told(rest: RestCatalog) -> None:
    table = create("cat:db.t", 2, **options_of(rest))
    file = data_file(table, [1])
    base = table.operations.load()
    del rest.tables["db.t"]
    with pytest.raises(TableNotFoundError):
        commits.append(table.operations, [file])
    with pytest.raises(TableNotFoundError):
        table.operations.commit(base, (), [{"action": "set-properties", "updates": {"a": "b"}}])


def test_what_is_sent_to_a_rest_catalog(rest: RestCatalog) -> None:
    table = create("cat:db.t", 3, **options_of(rest))
    commits.append(table.operations, [data_file(table, [1, 2])])
    commits.append(table.operations, [data_file(table, [3])])
    table.tag("two")
    first, second, tag = rest.commits
    uuid = {"type": "assert-table-uuid", "uuid": table.table_metadata.uuid}
    heads = [snapshot.snapshot_id for snapshot in table.table_metadata.snapshots.values()]
    for body, parent, head, rows_before, added in ((first, None, heads[0], 0, 2), (second, heads[0], heads[1], 2, 1)):
        needed = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent}
        assert body["requirements"] == [uuid, needed]
        snapshot = body["updates"][0]["snapshot"]
        assert (snapshot["snapshot-id"], snapshot.get("parent-snapshot-id")) == (head, parent)
        assert (snapshot["first-row-id"], snapshot["added-rows"]) == (rows_before, added)
        assert snapshot["summary"]["operation"] == "append" and snapshot["schema-id"] == 0
        moved = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": head}
        assert body["updates"][1] == moved
    assert tag["requirements"] == [uuid, {"type": "assert-ref-snapshot-id", "ref": "two", "snapshot-id": None}]
    assert tag["updates"] == [{"action": "set-snapshot-ref", "ref-name": "two", "type": "tag", "snapshot-id": heads[1]}]


def test_conflicts_run_out(rest: RestCatalog) -> None:
    table = create("cat:db.t", 2, **options_of(rest), **{"commit.retry.num-retries": "2"})
    rest.failures = [Failure(409)] * 3
    with pytest.raises(CommitConflictError, match="other writers won"):
        commits.append(table.operations, [data_file(table, [1])])
    assert not list(Path(table.location, "metadata").glob("*.avro"))
    rest.failures = [Failure(409)] * 2
    commits.append(table.operations, [data_file(table, [1])])
    assert ids(table) == [1]


@pytest.mark.parametrize(
    ("catalog", "what"),
    [("sql", "read"), ("hive", "read"), ("sql", "commit"), ("hive", "commit"), ("sql", "swap")],
    indirect=["catalog"],
)
def test_a_metadata_file_is_cleaned_up_while_the_catalog_reads_it(
    catalog: dict[str, str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of such a catalog reads the file that the catalog names. Others commit meanwhile and remove it."""
    cleans = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = create(f"cat:db.t{secrets.token_hex(4)}", 2, **catalog, **cleans)
    others: Any = [lakebed.open(table.operations.name, catalog) for _ in range(2)]
    file = data_file(table, [9])
    read, waiting, publish = file_io._Input.open, [3, 2], table_module.publishing

    def late(given: file_io._Input, seekable: bool = True) -> Any:
        if given._opened is table.operations._opened and waiting:  # type: ignore[attr-defined]
            number = len(waiting)
            for value in range(waiting.pop()):
                commits.append(others[0].operations, [data_file(others[0], [10 * number + value])])
        return read(given, seekable)

    def publishing(*given: Any) -> Any:
        monkeypatch.setattr(table_module, "publishing", publish)
        begin()
        return publish(*given)

    def begin() -> None:
        commits.append(others[1].operations, [data_file(others[1], [1])])  # so that it is no file that was read before
        monkeypatch.setattr(file_io._Input, "open", late)

    if what == "swap":
        monkeypatch.setattr(table_module, "publishing", publishing)
    else:
        begin()
    if what == "commit":
        commits.append(table.operations, [file])
    elif what == "swap":
        table.alter(lakebed.set_option("mine", "yes"))
        assert table.table_metadata.properties["mine"] == "yes"
    assert ids(table) == sorted([1, 10, 11, 12, 20, 21, *([9] if what == "commit" else [])]) and not waiting
