"""What commits or deletes in a Paimon table dies at changes of its store from the first to the last, and dies again
while it is done anew. At each moment the table has its old rows or the new ones, and the third run ends as the first
would have."""

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
from lakebed.errors import CorruptError, LakebedError, NotInHistoryError, TableNotFoundError, UsageError
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Crash, Fault, FaultyStore, Kind

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), ("v", pa.string())])
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
AT_ONCE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms",
           "lakebed.owed.time-retained": "1 ms"}  # fmt: skip
ORPHANS = {"lakebed.expire.what": "orphan-files", "lakebed.expire.orphans.after": "1 h"}


def some(turn: int, count: int = 5) -> pa.Table:
    """Rows of two partitions. A key is in one of them at even turns, in the other one at odd turns."""
    return pa.Table.from_pylist([{"p": "ab"[(n + turn) % 2], "k": n, "v": f"v{turn}"} for n in range(count)], SCHEMA)


def commit(store: Store, turn: int) -> None:
    """What a job runs that may start again."""
    writer = lakebed.open(store, QUICK).writer(commit_user="job")
    writer.write(some(turn))
    writer.filter_and_commit({turn: writer.prepare_commit()})


def rows(store: Store) -> Any:
    return sorted(tuple(row.values()) for row in lakebed.open(store).read().read_all().to_pylist())


def commits(store: Store) -> Any:
    return rows(store), [(i.action, i.summary["commit_identifier"]) for i in lakebed.open(store).history()]


def tags(store: Store) -> Any:
    return rows(store), sorted(History(store).tags())


def buckets(store: Store) -> Any:
    return sorted({entry.total_buckets for entry in live_files(store, History(store).latest())})


def files(store: Store) -> Any:
    """All files but a hint that a crash may leave out, once the next expiry has finished what is begun."""
    lakebed.open(store).expire()
    return {info.path for info in store.walk("")} - {"changelog/EARLIEST"}


@dataclass(frozen=True)
class Verb:
    """A verb on a table. `look` sees the old state, the new one, or one of `between` at any moment, `end` the new one
    when it is done."""

    act: Callable[[Store], None]
    options: dict[str, str]
    prepare: Callable[[Store], None] = lambda store: None
    look: Callable[[Store], Any] = commits
    end: Callable[[Store], Any] = commits
    key: tuple[str, ...] = ("p", "k")
    between: Callable[[Store], list[Any]] = lambda store: []


def tag(store: Store) -> None:
    with suppress(UsageError):  # it is there
        lakebed.open(store).tag("t", 1)


def untag(store: Store) -> None:
    with suppress(NotInHistoryError):
        lakebed.open(store).delete_tag("t")


def tagged(store: Store) -> None:
    tag(store)
    lakebed.open(store).write(some(2), "overwrite")
    lakebed.open(store).expire(options=AT_ONCE)


def littered(store: Store) -> None:
    """Files that nothing names, in each kind of folder."""
    long_ago = time.time() - 86_400
    for path in ("p=a/bucket-0/data-x-0.parquet", "p=b/bucket-0/changelog-x-1.parquet", "manifest/manifest-x-0",
                 "index/index-x-0"):  # fmt: skip
        store.write(path, b"x")
        os.utime(Path(store.location) / path, (long_ago, long_ago))


def second(store: Store) -> None:
    commit(store, 2)


def rewrite(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite()


def rescale(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite(options={"bucket": "2", "write-only": "false"})


def more_buckets(store: Store) -> None:
    lakebed.open(store).alter(lakebed.set_option("bucket", 2))


def overwrite(store: Store) -> None:
    lakebed.open(store, {**QUICK, "dynamic-partition-overwrite": "false"}).write(some(2, 3), "overwrite")


def clean(store: Store) -> None:
    lakebed.open(store).expire(options=ORPHANS)


def history(store: Store) -> None:
    """Snapshots 3 to 5, the tags `t` of one that has expired and `late` of one that is there, and a consumer of 5."""
    tag(store)
    for turn in (2, 3, 4, 5):
        lakebed.open(store).write(some(turn), "overwrite" if turn == 3 else "append")
    lakebed.open(store).expire(options={**AT_ONCE, "snapshot.num-retained.min": "3", "snapshot.num-retained.max": "3"})
    lakebed.open(store).tag("late", 4)
    store.write("consumer/consumer-c", b'{"nextSnapshot": 6}')


def every(store: Store, branch: str = "main") -> list[Any]:
    """The rows of each snapshot and tag of a branch, in the columns that all of them have."""
    table = lakebed.open(store, {"branch": branch})
    times = [
        *(int(instant.time) for instant in table.history()),
        *(f"tag:{name}" for name in History(store, branch).tags()),
    ]
    reads = [table.read(["p", "k", "v"], as_of=time_).read_all().to_pylist() for time_ in times]
    return [sorted(tuple(row.values()) for row in found) for found in reads]


def newest(store: Store) -> Any:
    """The newest rows. All that the history has can be read, too."""
    every(store)
    return sorted(tuple(row.values()) for row in lakebed.open(store).read(["p", "k", "v"]).read_all().to_pylist())


def roll_back(store: Store) -> None:
    lakebed.open(store).rollback(3)


def roll_back_to_tag(store: Store) -> None:
    lakebed.open(store).rollback("tag:t")


def expire(store: Store) -> None:
    lakebed.open(store).expire(options=KEPT)


def alter(store: Store) -> None:
    table = lakebed.open(store)
    if "more" not in table.schema.names:
        table.alter(
            [lakebed.add_column("more", "int64"), lakebed.rename_column("v", "w"), lakebed.set_option("num-levels", 3)]
        )


def columns(store: Store) -> Any:
    table = lakebed.open(store)
    return table.schema.names, table.table_schema.options.get("num-levels"), rows(store)  # type: ignore[attr-defined]


def forked(store: Store) -> None:
    """A branch that went another way, with a schema and a tag of its own."""
    history(store)
    lakebed.open(store).branch("b", "tag:late")
    branch = lakebed.open(store, {"branch": "b"})
    branch.alter(lakebed.add_column("more", "int64"))
    branch.write(some(7))
    branch.tag("of-b")
    branch.write(some(8))


def fork(store: Store) -> None:
    with suppress(UsageError):  # it is there
        lakebed.open(store).branch("new", "tag:late")


def unfork(store: Store) -> None:
    with suppress(NotInHistoryError):
        lakebed.open(store).delete_branch("b")


def forward(store: Store) -> None:
    lakebed.open(store).fast_forward("b")


def branches(store: Store) -> Any:
    """The rows of all branches. One that is being made or removed cannot be opened, or says which schema is missing."""
    found = {}
    for name in sorted(History(store).branches()):
        with suppress(TableNotFoundError, CorruptError):
            found[name] = every(store, name)
    return newest(store), found


ONE = {"bucket": "1"}
TOLD_AT_ONCE = {**ONE, "changelog-producer": "input", "write-only": "true"}
KEPT = {**AT_ONCE, "changelog.num-retained.max": "2", "changelog.time-retained": "1 h"}
"""Changelogs outlive their snapshots."""
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
TOLD = {**ONE, "changelog-producer": "lookup", "write-only": "true"}
VERBS = {
    "a tag": Verb(tag, ONE, look=tags, end=tags),
    "a tag that goes": Verb(untag, {**ONE, "write-only": "true"}, tagged, look=tags, end=files),
    "postponed rows": Verb(rewrite, {"bucket": "-2", "postpone.default-bucket-num": "2"}),
    "dynamic buckets": Verb(second, DYNAMIC),
    "keys that change their partition": Verb(second, DYNAMIC, key=("k",)),
    "an overwrite of all": Verb(overwrite, ONE, look=rows, end=rows),
    "other buckets": Verb(rescale, TOLD, more_buckets, look=rows, end=buckets),
    "a rollback": Verb(roll_back, TOLD_AT_ONCE, history, newest, files, between=every),
    "a rollback to a tag": Verb(roll_back_to_tag, TOLD_AT_ONCE, history, newest, files, between=every),
    "snapshots that expire": Verb(expire, TOLD_AT_ONCE, history, newest, files),
    "other columns": Verb(alter, ONE, look=columns, end=columns),
    "a branch": Verb(fork, ONE, forked, branches, files),
    "a branch that goes": Verb(unfork, ONE, forked, branches, files),
    "a branch that is followed": Verb(forward, ONE, forked, newest, files, between=lambda s: every(s) + every(s, "b")),
    "orphan files": Verb(clean, ONE, littered, look=rows, end=files),
}


def dies(act: Callable[[Store], None], store: Store, at: int, kind: Kind) -> Store:
    """The store as a process leaves it that dies at a change, if it makes so many."""
    with suppress(Crash, LakebedError, ValueError):  # ValueError: this call cannot fail in that way
        act(FaultyStore(store, Fault(at, kind)))
    return store


@pytest.mark.parametrize("name", VERBS)
def test_two_deaths_and_a_third_run(tmp_path: Path, name: str) -> None:
    verb, original, number = VERBS[name], tmp_path / "original", itertools.count()
    lakebed.create(original, "paimon", SCHEMA, verb.key, ["p"], verb.options)
    commit(open_store(original), 1)
    verb.prepare(open_store(original))

    def copy() -> Store:
        return open_store(shutil.copytree(original, tmp_path / f"copy-{next(number)}"))

    whole = FaultyStore(copy())
    states = [verb.look(whole.real), *verb.between(whole.real)]
    verb.act(whole)
    new, end = verb.look(whole.real), verb.end(whole.real)
    states.append(new)
    calls = len(whole.changes)
    assert calls, "it changes nothing"
    for at in range(1, calls + 1, max(1, calls // 10)):
        first, then = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER) if at % 2 else (Kind.CRASH_AFTER, Kind.CRASH_BEFORE)
        store = dies(verb.act, copy(), at, first)
        assert verb.look(store) in states, f"{first} at change {at}"
        again = 1 + at * 7 % calls
        dies(verb.act, store, again, then)
        assert verb.look(store) in states, f"{first} at change {at}, {then} at change {again}"
        verb.act(store)
        assert (verb.look(store), same(verb.end(store))) == (new, same(end)), f"{first} at {at}, {then} at {again}"


def same(state: Any) -> Any:
    """Names of files without what is new in each run."""
    return len(state) if isinstance(state, set) else state
