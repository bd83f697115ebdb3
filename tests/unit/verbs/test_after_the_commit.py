"""Whatever fails after a commit stands is a note of its result: an error would make the caller write again."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, DataCleanedError, RetryableError
from lakebed.kernel.commit.afterwards import afterwards
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.model.commit import Outcome
from lakebed.testing.faults import Call, Fault, FaultyStore

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])
OPTIONS = {
    "paimon": {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2",
               "snapshot.time-retained": "1 ms"},
    "iceberg": {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"},
}  # fmt: skip
CLAIMS = {"paimon": r"snapshot/snapshot-\d+", "iceberg": r"metadata/v\d+\.metadata\.json"}
ERRORS = [
    RetryableError("gone"),
    DataCleanedError("gone"),
    CorruptError("torn"),
    FileNotFoundError("gone"),
    ValueError("?"),
]
FORMATS = [*OPTIONS]


class DeadAfterwards(FaultyStore):
    """Once a commit's name is claimed every call fails."""

    def __init__(self, real: Store, claim: str, error: Exception) -> None:
        super().__init__(real)
        self._claim, self._error, self.dead = re.compile(claim), error, False
        self.afterwards: list[Call] = []

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        outcome = super().put_if_absent(path, data)
        self.dead = self.dead or (outcome is PutOutcome.CREATED and self._claim.fullmatch(path) is not None)
        return outcome

    def _fault(self, call: Call) -> Fault | None:
        if self.dead:
            self.afterwards.append(call)
            raise self._error
        return super()._fault(call)


class Seen:
    """A callback."""

    def call(self, commit: Any) -> None:
        """Do nothing."""


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "v": ["x"] * len(ids)}, schema=SCHEMA)


def filled(folder: Path, format: str) -> tuple[str, Callable[[Exception], Any]]:
    """A table with some commits behind it, and how to open it so that it dies after a commit."""
    location = str(folder / "db.db/t")
    keys = ["id"] if format == "paimon" else []
    lakebed.create(location, format, SCHEMA, keys, options=OPTIONS[format])
    busy = lakebed.open(location, {"write-only": "true"} if format == "paimon" else {})
    for number in range(3):
        busy.write(rows(number))
    return location, lambda error: lakebed.open(DeadAfterwards(open_store(location), CLAIMS[format], error))


def held(location: str) -> list[int]:
    return sorted(lakebed.open(location).read().read_all()["id"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_write_stands(tmp_path: Path, format: str, error: Exception) -> None:
    location, dying = filled(tmp_path, format)
    table = dying(error)
    result = table.write(rows(100))
    assert table.store.afterwards, "the test proves nothing when nothing follows the commit"
    assert result.outcome is Outcome.COMMITTED
    assert held(location) == [0, 1, 2, 100]
    if format == "paimon":
        assert any("old snapshots stay" in note for note in result.notes)
    assert lakebed.open(location).write(rows(101)).notes == ()


@pytest.mark.parametrize("format", FORMATS)
def test_so_do_two_phases_with_callbacks(tmp_path: Path, format: str) -> None:
    location, dying = filled(tmp_path, format)
    table = dying(FileNotFoundError("gone"))
    with table.writer("job", callbacks=[Seen()]) as writer:
        writer.write(rows(100))
        assert writer.commit(1, writer.prepare_commit()).outcome is Outcome.COMMITTED
    assert held(location) == [0, 1, 2, 100]


@pytest.mark.parametrize("format", FORMATS)
def test_a_replay_is_skipped_though_its_files_cannot_be_removed(tmp_path: Path, format: str) -> None:
    location, _ = filled(tmp_path, format)
    first = lakebed.open(location).writer("job")
    first.write(rows(100))
    first.commit(1, first.prepare_commit())

    class CannotDelete(FaultyStore):
        def delete(self, path: str) -> None:
            raise RetryableError("cannot delete")

    again = lakebed.open(CannotDelete(open_store(location))).writer("job")  # type: ignore[arg-type]
    again.write(rows(100))
    result = again.commit(1, again.prepare_commit())
    assert result.outcome is Outcome.SKIPPED
    if format == "iceberg":
        assert any("files of the replay stay" in note for note in result.notes)
    assert held(location) == [0, 1, 2, 100]


def test_an_expiry_of_iceberg_snapshots_stands(tmp_path: Path) -> None:
    location, dying = filled(tmp_path, "iceberg")
    result = dying(CorruptError("torn")).expire(options={"older-than": "2100-01-01"})
    assert len(result.expired) == 2
    assert any("stay until orphan files are removed" in note for note in result.notes)
    assert len(lakebed.open(location).history()) == 1 and held(location) == [0, 1, 2]


def test_an_expiry_of_paimon_snapshots_stands_and_resumes(tmp_path: Path) -> None:
    location, _ = filled(tmp_path, "paimon")

    class KeepsManifests(FaultyStore):
        def delete(self, path: str) -> None:
            if path.startswith("manifest/"):
                raise RetryableError("cannot delete")
            super().delete(path)

    result = lakebed.open(KeepsManifests(open_store(location))).expire()  # type: ignore[arg-type]
    assert result.expired == ("1", "2")
    assert any("resumes" in note for note in result.notes)
    assert lakebed.open(location).expire().deleted_files and held(location) == [0, 1, 2]


def test_a_rewrite_stands(tmp_path: Path) -> None:
    location, dying = filled(tmp_path, "iceberg")
    options = {"rewrite-all": "true", "remove-dangling-deletes": "true", "partial-progress.enabled": "true"}
    result = dying(RetryableError("gone")).rewrite(options=options)
    assert len(result.instants) == 1 and any("delete files that nothing needs" in note for note in result.notes)
    assert held(location) == [0, 1, 2]


def test_callbacks_that_cannot_be_made_are_told_before_the_tag(tmp_path: Path) -> None:
    location, _ = filled(tmp_path, "paimon")
    table = lakebed.open(location, {"tag.callbacks": "no.such:Thing"})
    for act in (lambda: table.tag("t"), lambda: table.delete_tag("t")):
        with pytest.raises(lakebed.errors.LakebedError):
            act()
        assert not (Path(location) / "tag").exists() or not [*(Path(location) / "tag").iterdir()]


def test_the_note_says_what_and_why() -> None:
    def fail() -> None:
        raise ValueError("no\nsecond line")

    assert afterwards("leftovers stay", lambda: None) == ()
    assert afterwards("leftovers stay", fail) == ("the commit stands, but leftovers stay: ValueError no",)
