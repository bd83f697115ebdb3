"""The removal of orphan files, a repair and the creation of an Iceberg table die twice, and meet another writer, an
expiry or a twin of themselves at calls from the first to the last. The table has the rows that an order of the two
leaves, every snapshot that it needs can be read, and the last run ends as the first would have."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, DataCleanedError, TableExistsError, TableNotFoundError
from lakebed.formats.iceberg.table import IcebergTable
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import FaultyStore
from tests.crash.harness import Act, Meeting, Stepping, refusal, spread, two_deaths
from tests.tables.iceberg import commits
from tests.tables.iceberg.small import SCHEMA, create, data_file, ids, position_deletes

OLD = time.time() - 10 * 86_400
STRAYS = ("data/p=a/stray.parquet", "data/stray.parquet", "metadata/stray-m0.avro")


def opened(store: Store) -> IcebergTable:
    table = lakebed.open(store)
    assert isinstance(table, IcebergTable)
    return table


def aged(store: Store) -> None:
    """Every file is ten days old."""
    for path in Path(store.location).rglob("*"):
        os.utime(path, (OLD, OLD))


def litter(store: Store) -> None:
    for stray in STRAYS:
        store.write(stray, b"x")
    aged(store)


def harm(store: Store) -> None:
    """The file of partition b is gone, and that of partition c is cut."""
    (gone,) = Path(store.location).glob("data/p=b/*.parquet")
    gone.unlink()
    (cut,) = Path(store.location).glob("data/p=c/*.parquet")
    cut.write_bytes(b"PAR1")


def remove_orphans(store: Store) -> None:
    opened(store).expire(options={"expire-snapshots": False, "remove-orphan-files": True})


def repair(store: Store) -> None:
    opened(store).repair(options={"lakebed.repair.most-lost-percent": 100})


def another_writer(store: Store) -> None:
    opened(store).write(pa.table({"id": [20, 21], "p": ["a", "d"]}, SCHEMA))


def an_expiry(store: Store) -> None:
    """Everything that the verb has planned on goes, but what the newest snapshot needs."""
    another_writer(store)
    opened(store).expire(options={"older-than": "2100-01-01", "retain-last": 1})


def readable(store: Store) -> Any:
    """The rows of each snapshot, and the strays that are left."""
    table = opened(store)
    left = [stray for stray in STRAYS if (Path(store.location) / stray).exists()]
    return [ids(table, as_of=instant) for instant in table.history()], left


def whole(store: Store) -> Any:
    """The rows, None where they cannot be read, and what is lost of the newest snapshot."""
    table = opened(store)
    lost = sorted(file.partition or "" for file in table.repair(dry_run=True).lost)
    with suppress(CorruptError, DataCleanedError):
        return ids(table), lost
    return None, lost


@dataclass(frozen=True)
class Verb:
    """A verb on a table with three partitions after what `prepare` does, and what is seen of the table."""

    prepare: Act
    act: Act
    look: Callable[[Store], Any]


VERBS = {"orphan files": Verb(litter, remove_orphans, readable), "repair": Verb(harm, repair, whole)}
OTHERS: dict[str, Act | None] = {"another writer": another_writer, "an expiry": an_expiry, "a twin": None}


@pytest.fixture
def make(tmp_path: Path) -> Callable[[Verb], Callable[[], Store]]:
    """Fresh copies of the table of a verb. Metadata holds absolute locations, so that each copy takes the place of the
    one before."""
    original, place, number = tmp_path / "original", tmp_path / "table", itertools.count()

    def copy() -> Store:
        place.rename(tmp_path / f"done-{next(number)}")
        shutil.copytree(original, place)
        return open_store(place)

    def of(verb: Verb) -> Callable[[], Store]:
        table = create(place)
        files = [data_file(table, [n, n + 1, n + 2], p) for n, p in ((1, "a"), (4, "b"), (7, "c"))]
        commits.append(table.operations, files)
        commits.row_delta(table.operations, (), (position_deletes(table, files[1], [0]),))
        verb.prepare(open_store(place))
        shutil.copytree(place, original)
        return copy

    return of


@pytest.mark.parametrize("name", VERBS)
def test_two_deaths_and_a_third_run(make: Callable[[Verb], Callable[[], Store]], name: str) -> None:
    verb, copies = VERBS[name], make(VERBS[name])
    store = copies()
    old = verb.look(store)
    verb.act(store)
    new = verb.look(store)
    assert new != old
    for moment in two_deaths(verb.act, copies, 4):
        seen = verb.look(moment.store)
        if name == "orphan files" and not moment.ended:  # they go one by one
            assert seen[0] == old[0] and set(seen[1]) <= set(STRAYS), moment.where
        else:
            assert seen in ((new,) if moment.ended else (old, new)), moment.where


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", VERBS)
def test_who_steps_in_at_any_call(make: Callable[[Verb], Callable[[], Store]], name: str, other: str) -> None:
    verb, copies = VERBS[name], make(VERBS[name])
    rival = OTHERS[other] or verb.act
    wanted = []
    for order in itertools.permutations((verb.act, rival)):
        store = copies()
        assert [refusal(act, store) for act in order] == [None, None]
        wanted.append(verb.look(store))
    for first, second in ((verb.act, rival), (rival, verb.act)):
        counted = FaultyStore(copies())
        first(counted)
        for at in spread(len(counted.calls), 7 if first is verb.act else 3):
            store = Stepping(copies(), at, second)
            refused = [refusal(first, store), store.error]
            where = f"at call {at}, {store.calls[at - 1]}: {refused}"
            assert store.stepped_in and refused[1] is None, where
            if refused[0] is not None:
                assert first is verb.act, where
                first(store.real)
            assert verb.look(store.real) in wanted, where


def test_old_files_of_a_commit_that_comes_before_the_metadata_is_read(
    make: Callable[[Verb], Callable[[], Store]],
) -> None:
    """A writer that prepared its files long ago commits after the folder was listed."""
    copies = make(VERBS["orphan files"])
    counted = FaultyStore(copies())
    remove_orphans(counted)
    walked = 1 + [call.verb for call in counted.calls].index("walk")
    for at in (walked, walked + 1, walked + 2):
        real = copies()
        writer = opened(real).writer()
        writer.write(pa.table({"id": [20], "p": ["a"]}, SCHEMA))
        messages = writer.prepare_commit()
        aged(real)
        store = Stepping(real, at, lambda _, writer=writer, messages=messages: writer.commit(1, messages))
        remove_orphans(store)
        assert store.error is None and readable(real)[0][-1] == [1, 2, 3, 5, 6, 7, 8, 9, 20], at


def test_a_creation_dies_twice_and_meets_another_one(tmp_path: Path) -> None:
    number = itertools.count()

    def empty() -> Store:
        return open_store(tmp_path / f"t{next(number)}")

    def make_it(store: Store) -> None:
        lakebed.create(store, "iceberg", SCHEMA, (), "p")

    def make_another(store: Store) -> None:
        lakebed.create(store, "iceberg", pa.schema([pa.field("other", pa.string())]))

    def again(store: Store) -> None:
        with suppress(TableExistsError):
            make_it(store)

    def look(store: Store) -> Any:
        with suppress(TableNotFoundError):
            table = opened(store)
            return table.schema.names, table.read().read_all().num_rows, len(table.table_metadata.spec.fields)
        return None

    new = (["id", "p"], 0, 1)
    for moment in two_deaths(again, empty, 4):
        assert look(moment.store) in ((new,) if moment.ended else (None, new)), moment.where
    for acts in ((make_it, make_another), (make_it, another_writer)):
        meeting = Meeting(empty, *acts, look)
        for moment_ in meeting.moments:
            store, refused = meeting.at(moment_)
            assert [error is None for error in refused].count(True) == 1 or acts[1] is another_writer
            assert look(store) is not None
