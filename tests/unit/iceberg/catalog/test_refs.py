"""Branches, tags, rollbacks and staged writes through each kind of catalog, and what its answers make of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitUnknownError, NotInHistoryError, StorageError
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg.rest_server import Failure, RestCatalog
from tests.tables.iceberg.small import create, ids
from tests.unit.iceberg.catalog.conftest import options_of


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "p": ["a"] * len(numbers)})


def opened(name: str, options: dict[str, str], **more: str) -> IcebergTable:
    table = lakebed.open(name, {**options, **{key.replace("_", "."): text for key, text in more.items()}})
    assert isinstance(table, IcebergTable)
    return table


def test_a_life_of_refs_in_every_catalog(catalog: dict[str, str]) -> None:
    name = "cat:refs.t"
    table = create(name, 3, **{**catalog, "write.wap.enabled": "true"})
    first = table.write(rows(0)).instant
    table.branch("side", options={"min-snapshots-to-keep": 2, "max-ref-age-ms": 10**12})
    opened(name, catalog, branch="side").write(rows(7))
    ref = table.table_metadata.refs["side"]
    assert (ref.min_snapshots_to_keep, ref.max_ref_age_ms) == (2, 10**12)  # a commit leaves them
    table.write(rows(1), options={"wap.id": "one"})
    opened(name, catalog, wap_branch="audit").write(rows(2))
    table.write(rows(3))
    assert table.publish("one").dry_run is False
    assert ids(table) == [0, 1, 3] and ids(opened(name, catalog, branch="audit")) == [0, 2]
    table.tag("before", time_retained="3 d")
    assert len(table.rollback(first).removed) == 2
    table.fast_forward("before")
    table.retain("before", {"max-ref-age-ms": 5})
    table.rollback("branch:side", any_snapshot=True)
    table.branch("side", at="tag:before", replace=True)
    assert (ids(table), ids(opened(name, catalog, branch="side"))) == ([0, 7], [0, 1, 3])
    ref = table.table_metadata.refs["side"]
    assert (ref.min_snapshots_to_keep, ref.max_ref_age_ms, table.table_metadata.refs["before"].max_ref_age_ms) == (
        2,
        10**12,
        5,
    )
    table.delete_branch("audit")
    assert [ref.name for ref in table.refs()] == ["main", "side", "before"]


@pytest.mark.parametrize("verb", ["tag", "fast_forward", "rollback", "publish", "delete_branch"])
def test_a_change_that_landed_and_was_called_lost_or_lost_its_answer(rest: RestCatalog, verb: str) -> None:
    options = options_of(rest)
    quick = {"commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "1"}
    for number, failure in enumerate((Failure(409, after=True), Failure(500), Failure(403))):
        table = create(f"cat:refs.{verb}{number}", 2, **{**options, **quick, "write.wap.enabled": "true"})
        first = table.write(rows(0)).instant
        table.branch("side")
        opened(f"cat:refs.{verb}{number}", options, branch="side").write(rows(7))
        table.write(rows(1), options={"wap.id": "one"})
        if verb == "rollback":
            table.write(rows(3))
        arguments: dict[str, list[Any]] = {
            "tag": ["t"], "fast_forward": ["side"], "rollback": [first], "publish": ["one"], "delete_branch": ["side"]
        }  # fmt: skip
        before = rest.tables[f"refs.{verb}{number}"]
        act = getattr(table, verb)
        rest.failures = [failure] * (2 if failure.status == 403 else 1)  # refused credentials are tried twice
        if failure.after:
            assert act(*arguments[verb]).dry_run is False
            assert rest.tables[f"refs.{verb}{number}"] != before
            continue
        with pytest.raises(CommitUnknownError if failure.status == 500 else StorageError):
            act(*arguments[verb])
        assert rest.tables[f"refs.{verb}{number}"] == before


ONLY_NEWEST = {"older-than": "2100-01-01", "retain-last": 1}


def overwritten(rest: RestCatalog, version: int) -> tuple[IcebergTable, IcebergTable, str]:
    """A table whose first snapshot has a file that no other one has, opened twice, and the id of that snapshot."""
    options = {**options_of(rest), "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "1"}
    table = create("cat:refs.t", version, **options)
    first = table.write(rows(0, 1)).instant
    table.write(rows(2), "overwrite")
    return table, opened("cat:refs.t", options), first


def files_in(rest: RestCatalog) -> set[str]:
    return {path.name for path in (rest.warehouse / "refs/t/data").rglob("*.parquet")}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_tag_that_is_made_while_its_snapshot_expires(rest: RestCatalog, version: int) -> None:
    """A REST catalog removes both, since it knows no requirement that would see the new name."""
    table, other, first = overwritten(rest, version)
    files = files_in(rest)
    rest.meanwhile = [lambda: other.tag("kept", int(first))]
    done = table.expire(options=ONLY_NEWEST)
    assert [note for note in done.notes if "kept: made while the snapshot expired, so both were put back" in note]
    assert files_in(rest) == files and not [path for path in done.deleted_files if path.startswith("data/")]
    assert {ref.name: ref.instant for ref in table.refs()}["kept"] == first
    assert sorted(table.read(as_of="tag:kept").read_all()["id"].to_pylist()) == [0, 1]
    assert sorted(table.read(as_of=int(first)).read_all()["id"].to_pylist()) == [0, 1]
    table.write(rows(3))
    assert table.expire(options={"expire-snapshots": False, "remove-orphan-files": True}).deleted_files == ()
    table.delete_tag("kept")
    table.expire(options=ONLY_NEWEST)
    assert ids(table) == [2, 3] and len(files_in(rest)) == 2


def test_a_branch_that_goes_on_where_a_snapshot_expires(rest: RestCatalog) -> None:
    """The files of its new snapshot are those of the expired one."""
    table, other, first = overwritten(rest, 2)

    def branch() -> None:
        other.branch("side", int(first))
        opened("cat:refs.t", options_of(rest), branch="side").write(rows(7))

    rest.meanwhile = [branch]
    table.expire(options=ONLY_NEWEST)
    assert ids(table) == [2] and ids(opened("cat:refs.t", options_of(rest), branch="side")) == [0, 1, 7]


@pytest.mark.parametrize("case", ["refused", "unreadable"])
def test_what_cannot_be_put_back_keeps_its_files(rest: RestCatalog, case: str) -> None:
    table, other, first = overwritten(rest, 2)
    files = files_in(rest)

    def tag() -> None:
        other.tag("kept", int(first))
        rest.hidden_metadata = case == "unreadable"
        rest.failures = [Failure(200), Failure(403), Failure(403)] if case == "refused" else []

    rest.meanwhile = [tag]
    done = table.expire(options=ONLY_NEWEST)
    assert done.deleted_files == () and files_in(rest) == files
    text = "kept: made while the snapshot expired, and gone with it" if case == "refused" else "cannot be read"
    assert [note for note in done.notes if text in note]


def test_a_staged_write_that_becomes_the_first_one_while_it_expires(rest: RestCatalog) -> None:
    """The table has no branch before, whose head the catalog could be asked to look at."""
    options = options_of(rest)
    table = create("cat:refs.t", 2, **options, **{"write.wap.enabled": "true"})
    table.write(rows(1), options={"wap.id": "one"})
    other = opened("cat:refs.t", options)
    assert ids(table) == []
    rest.meanwhile = [lambda: other.publish("one")]
    done = table.expire(options=ONLY_NEWEST)
    assert done.expired == () and done.notes == () and ids(table) == [1]


def test_a_snapshot_expires_while_a_tag_is_made_of_it(rest: RestCatalog) -> None:
    """The catalog answers 400, as to a request that is wrong by itself, and the tag is looked at anew."""
    table, other, first = overwritten(rest, 2)
    rest.meanwhile = [lambda: other.expire(options=ONLY_NEWEST)]
    with pytest.raises(NotInHistoryError, match=f"snapshot {first} is not in the history"):
        table.tag("kept", int(first))
    assert ids(table) == [2] and "kept" not in {ref.name for ref in table.refs()}


def test_a_staged_write_that_expires_while_it_is_published_on_top_of_others(rest: RestCatalog) -> None:
    """The new snapshot would name the files of the expired one, which are gone."""
    options = {**options_of(rest), "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "1"}
    table = create("cat:refs.t", 2, **options, **{"write.wap.enabled": "true"})
    table.write(rows(0))
    table.write(rows(1), options={"wap.id": "one"})
    table.write(rows(2), options={"wap.id": "two"})
    table.write(rows(3))
    other = opened("cat:refs.t", options)
    table.publish("two")
    assert ids(table) == [0, 2, 3] and [ref.name for ref in table.refs()] == ["main"]
    rest.meanwhile = [lambda: other.expire(options=ONLY_NEWEST)]
    with pytest.raises(NotInHistoryError, match="is not in the history"):
        table.publish("one")
    assert ids(table) == [0, 2, 3]
