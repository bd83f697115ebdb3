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
from lakebed.errors import LakebedError, NotInHistoryError, UsageError
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store, open_store
from lakebed.testing.faults import Crash, Fault, FaultyStore, Kind

SCHEMA = pa.schema([pa.field("p", pa.string(), False), pa.field("k", pa.int64(), False), ("v", pa.string())])
QUICK = {"commit.min-retry-wait": "1 ms", "commit.max-retry-wait": "2 ms"}
AT_ONCE = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "1 ms"}
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
    return {info.path for info in store.walk("")}


@dataclass(frozen=True)
class Verb:
    """A verb on a table. `look` sees the old state or the new one at any moment, `end` the new one when it is done."""

    act: Callable[[Store], None]
    options: dict[str, str]
    prepare: Callable[[Store], None] = lambda store: None
    look: Callable[[Store], Any] = commits
    end: Callable[[Store], Any] = commits
    key: tuple[str, ...] = ("p", "k")


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


ONE = {"bucket": "1"}
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
    old = verb.look(whole.real)
    verb.act(whole)
    new, end = verb.look(whole.real), verb.end(whole.real)
    calls = len(whole.changes)
    for at in range(1, calls + 1, max(1, calls // 10)):
        first, then = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER) if at % 2 else (Kind.CRASH_AFTER, Kind.CRASH_BEFORE)
        store = dies(verb.act, copy(), at, first)
        assert verb.look(store) in (old, new), f"{first} at change {at}"
        again = 1 + at * 7 % calls
        dies(verb.act, store, again, then)
        assert verb.look(store) in (old, new), f"{first} at change {at}, {then} at change {again}"
        verb.act(store)
        assert (verb.look(store), same(verb.end(store))) == (new, same(end)), f"{first} at {at}, {then} at {again}"


def same(state: Any) -> Any:
    """Names of files without what is new in each run."""
    return len(state) if isinstance(state, set) else state
