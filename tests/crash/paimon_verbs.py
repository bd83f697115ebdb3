"""The verbs of Paimon tables that commit or delete something, each with a table that it has something to do in, and
what is seen of the table. Each verb is what a job runs that may start again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.errors import CorruptError, NotInHistoryError, TableExistsError, TableNotFoundError, UsageError
from lakebed.formats.paimon.manifests import live_files
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel.files import Store
from tests.crash.harness import Act, Look

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


def once_more(store: Store) -> None:
    """A second snapshot, so that the first one can expire."""
    lakebed.open(store, QUICK).write(some(1, 1))


def another_writer(store: Store) -> None:
    """Rows of keys that nobody else has, in the columns that the table has by now."""
    table = lakebed.open(store, QUICK)
    data = pa.Table.from_pylist([{"p": p, "k": n, "v": "rival"} for n, p in ((20, "a"), (21, "b"))], SCHEMA)
    table.write(data.rename_columns(table.schema.names[:3]))


def expire_all(store: Store) -> None:
    """Only the newest snapshot stays."""
    lakebed.open(store).expire(options=AT_ONCE)


def an_expiry(store: Store) -> None:
    """Everything goes that a verb may have planned on, but what the newest snapshot and its tags need."""
    another_writer(store)
    another_writer(store)  # so that the id of the first one is free again
    expire_all(store)


def rows(store: Store) -> Any:
    return sorted(tuple(row.values()) for row in lakebed.open(store).read().read_all().to_pylist())


def written(store: Store) -> Any:
    """The rows, and the commits that wrote some."""
    return rows(store), [
        i.summary["commit_identifier"] for i in lakebed.open(store).history() if i.action.upper() != "COMPACT"
    ]


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


def everything(store: Store) -> Any:
    """The columns, rows and tags of each branch, and how many buckets there are. Each snapshot can be read."""
    found: dict[str, Any] = {}
    with suppress(TableNotFoundError):
        for branch in ("main", *History(store).branches()):
            table, history = lakebed.open(store, {"branch": branch}), History(store, branch)
            every(store, branch, ("p", "k"))  # columns that are never altered
            tags = {name: values(table.read(as_of=f"tag:{name}")) for name in history.tags()}
            options = {key: value for key, value in table.table_schema.options.items() if key == "num-levels"}  # type: ignore[attr-defined]
            found[branch] = table.schema.names, options, values(table.read()), tags, buckets(store)
    return found


def compacted(store: Store) -> Any:
    """Everything once it is compacted: rows in level 0 are not seen before."""
    lakebed.open(store, QUICK).rewrite()
    return everything(store)


def tidied(store: Store) -> int:
    """How many files there are once orphans have gone, however young: what dead runs left and nobody needs."""
    long_ago = time.time() - 2 * 86_400
    for folder, _, names in os.walk(store.location):
        for name in names:
            os.utime(Path(folder) / name, (long_ago, long_ago))
    clean(store)
    return len({info.path for info in store.walk("")} - {"changelog/EARLIEST"})


@dataclass(frozen=True)
class Verb:
    """A verb on a table that is made with `options`, the primary `key` and what `prepare` does; without a key, it has
    none. `look` sees the old state, the new one, or one of `between` at any moment, `end` the new one when it is done.
    """

    act: Act
    options: dict[str, str]
    prepare: Act = once_more
    look: Callable[[Store], Any] = commits
    end: Callable[[Store], Any] = commits
    key: tuple[str, ...] = ("p", "k")
    between: Callable[[Store], list[Any]] = lambda store: []
    done: tuple[type[Exception], ...] = ()
    """Errors of a run after one that has done it."""
    rival: Act | None = another_writer
    expiry: Act | None = an_expiry
    """Who comes between its plan and its commit; None where that cannot be."""
    refused: tuple[str, ...] = ()
    """By whom it, or the other one, may be refused: "rival", "expiry"."""
    seen: Look = everything
    """What is seen of the table when it has met another one."""
    partly: bool = False
    """Whether a refusal beside a writer of another machine may come half way: done again, it ends."""

    def again(self, store: Store) -> None:
        """What a job runs that starts again."""
        with suppress(*self.done):
            self.act(store)


def tag(store: Store) -> None:
    lakebed.open(store).tag("t", 1)


def other_tag(store: Store) -> None:
    """The same name for another snapshot."""
    lakebed.open(store).tag("t", 2)


def untag(store: Store) -> None:
    lakebed.open(store).delete_tag("t")


def tagged(store: Store) -> None:
    tag(store)
    lakebed.open(store).write(some(2), "overwrite")
    lakebed.open(store).expire(options=AT_ONCE)
    once_more(store)


def littered(store: Store) -> None:
    """Files that nothing names, in each kind of folder."""
    once_more(store)
    long_ago = time.time() - 86_400
    for path in ("p=a/bucket-0/data-x-0.parquet", "p=b/bucket-0/changelog-x-1.parquet", "manifest/manifest-x-0",
                 "index/index-x-0"):  # fmt: skip
        store.write(path, b"x")
        os.utime(Path(store.location) / path, (long_ago, long_ago))


def create(store: Store) -> None:
    lakebed.create(store, "paimon", SCHEMA, ["p", "k"], ["p"], ONE)


def create_other(store: Store) -> None:
    lakebed.create(store, "paimon", SCHEMA, ["k"], [], ONE)


def second(store: Store) -> None:
    commit(store, 2)


def rewrite(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite()


def rewrite_manifests(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite(options={"lakebed.rewrite.what": "manifests"})


def thrice(store: Store) -> None:
    """Three more commits."""
    for turn in (2, 3, 4):
        lakebed.open(store, {**QUICK, "write-only": "true"}).write(some(turn))


def less(store: Store) -> None:
    """A manifest with deletions in it."""
    thrice(store)
    lakebed.open(store).write(some(2), "overwrite")


def manifests(store: Store) -> Any:
    return rows(store), lakebed.open(store).metadata("manifests").read_all().num_rows


def rescale(store: Store) -> None:
    lakebed.open(store, QUICK).rewrite(options={"bucket": "2", "write-only": "false"})


def more_buckets(store: Store) -> None:
    once_more(store)
    lakebed.open(store).alter(lakebed.set_option("bucket", 2))


def overwrite(store: Store) -> None:
    table = lakebed.open(store, {**QUICK, "dynamic-partition-overwrite": "false"})
    writer = table.writer(commit_user="job").with_overwrite({})
    writer.write(some(2, 3))
    writer.filter_and_commit({2: writer.prepare_commit()})


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


def values(reader: pa.RecordBatchReader) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in reader.read_all().to_pylist()), key=repr)


def every(store: Store, branch: str = "main", columns: tuple[str, ...] = ("p", "k", "v")) -> list[Any]:
    """The rows of each snapshot and tag of a branch."""
    table = lakebed.open(store, {"branch": branch})
    times = [
        *(int(instant.time) for instant in table.history()),
        *(f"tag:{name}" for name in History(store, branch).tags()),
    ]
    return [values(table.read(columns, as_of=time_)) for time_ in times]


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
    lakebed.open(store).branch("new", "tag:late")


def other_fork(store: Store) -> None:
    """The same name for another tag."""
    lakebed.open(store).branch("new", "tag:t")


def unfork(store: Store) -> None:
    lakebed.open(store).delete_branch("b")


def write_to_branch(store: Store) -> None:
    lakebed.open(store, {**QUICK, "branch": "b"}).write(some(9))


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
COMPACTING = {**ONE, "num-sorted-run.compaction-trigger": "2"}
VECTORS = {**ONE, "deletion-vectors.enabled": "true", "changelog-producer": "lookup"}
TOLD_AT_ONCE = {**ONE, "changelog-producer": "input", "write-only": "true"}
KEPT = {**AT_ONCE, "changelog.num-retained.max": "2", "changelog.time-retained": "1 h"}
"""Changelogs outlive their snapshots."""
DYNAMIC = {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}
TOLD = {**ONE, "changelog-producer": "lookup", "write-only": "true"}
EITHER = ("rival", "expiry")
VERBS = {
    "an append": Verb(second, {}, key=()),
    "an upsert": Verb(second, ONE),
    "a write that compacts": Verb(second, COMPACTING, look=written, end=written),
    "a compaction": Verb(rewrite, VECTORS, thrice, seen=compacted, refused=EITHER),
    "a compaction without keys": Verb(rewrite, {"compaction.min.file-num": "2"}, thrice, key=()),
    "manifests": Verb(rewrite_manifests, {**ONE, "write-only": "true"}, less, manifests, manifests),
    "a tag": Verb(tag, ONE, look=tags, end=tags, done=(UsageError,), rival=other_tag, refused=EITHER),
    "a tag that goes": Verb(
        untag, {**ONE, "write-only": "true"}, tagged, look=tags, end=files, done=(NotInHistoryError,)
    ),
    "postponed rows": Verb(rewrite, {"bucket": "-2", "postpone.default-bucket-num": "2"}),
    "dynamic buckets": Verb(second, DYNAMIC, refused=EITHER),
    "keys that change their partition": Verb(second, DYNAMIC, key=("k",), refused=EITHER),
    "an overwrite of all": Verb(overwrite, ONE),
    "other buckets": Verb(rescale, TOLD, more_buckets, rows, buckets, refused=EITHER),
    "a rollback": Verb(roll_back, TOLD_AT_ONCE, history, newest, files, between=every, refused=EITHER),
    "a rollback to a tag": Verb(roll_back_to_tag, TOLD_AT_ONCE, history, newest, files, between=every, refused=EITHER),
    "snapshots that expire": Verb(expire, TOLD_AT_ONCE, history, newest, files),
    "other columns": Verb(alter, ONE, look=columns, end=columns),
    "a branch": Verb(fork, ONE, forked, branches, files, done=(UsageError,), rival=other_fork, refused=("rival",)),
    "a branch that goes": Verb(
        unfork, ONE, forked, branches, files, done=(NotInHistoryError,), rival=write_to_branch, refused=("rival",)
    ),
    "a branch that is followed": Verb(
        forward,
        ONE,
        forked,
        newest,
        files,
        between=lambda s: every(s) + every(s, "b"),
        partly=True,
        refused=EITHER,
    ),
    "orphan files": Verb(clean, ONE, littered, look=rows, end=files),
    "a table": Verb(
        create,
        {},
        look=everything,
        end=everything,
        done=(TableExistsError,),
        rival=create_other,
        expiry=None,
        refused=("rival",),
    ),
}
