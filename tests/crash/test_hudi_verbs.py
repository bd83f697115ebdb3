"""What writes to a Hudi table or serves it dies at changes of its store, and dies again while it is done anew; and
another writer, or a clean with an archival, comes between its plan and its commit, and it between theirs. At each
moment the table has its old rows or the new ones, and nothing stays pending once the last run has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, NotInHistoryError, UsageError
from lakebed.formats.hudi.table import HudiTable
from lakebed.kernel import clock
from lakebed.kernel.engine import LocalEngine
from lakebed.kernel.files import Store, open_store
from lakebed.verbs.write import Mode
from tests.crash.harness import Act, Make, Meeting, copies, two_deaths
from tests.tables.hudi import rings
from tests.tables.hudi.fresh import fresh_table

SCHEMA = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("v", pa.string())])
QUIET = {"hoodie.clean.automatic": False, "hoodie.archive.automatic": False}
LOCKS = (".hoodie/.lakebed/writer.lock", ".hoodie/lock")
FEW = {"hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3, "hoodie.clean.commits.retained": 1}
ENDED = {"lakebed.expire.what": "failed-writes", "lakebed.expire.failed.after": "0 s"}
OLD = {"lakebed.expire.what": "partitions", "hoodie.partition.ttl.strategy.days.retain": 30}
MERGE = {"lakebed.rewrite.what": "clustering", "hoodie.bucket.index.min.num.buckets": "1"}


def some(*ids: int, v: str) -> pa.Table:
    return pa.Table.from_pylist([{"dt": "ab"[id % 2], "id": id, "v": v} for id in ids], SCHEMA)


def upsert(store: Store) -> None:
    """What a job runs that may start again."""
    table = lakebed.open(store)
    assert isinstance(table, HudiTable)
    sink = table.sink(Mode.APPEND, "job", options={**QUIET, "hoodie.datasource.write.operation": "upsert"})
    plan = sink.plan()
    writer = plan.task_writer()
    writer.write(some(0, 1, 8, v="new"))
    sink.filter_and_commit({7: sink.finalize(plan, writer.finish(), LocalEngine(1)).messages})


def overwrite(store: Store) -> None:
    lakebed.open(store).write(some(0, 10, v="over"), "overwrite", QUIET)


def rewriting(options: dict[str, Any], step: str = "run") -> Act:
    """What someone runs who knows that the last run died: it runs or withdraws what is pending, and then anew."""

    def act(store: Store) -> None:
        table = lakebed.open(store)
        pending = [instant for instant in table.history() if instant.state != "completed"]
        for instant in pending:
            table.rewrite(options={**options, "lakebed.rewrite.instant": instant.time, "lakebed.rewrite.step": step})
        if not pending or step == "withdraw":
            table.rewrite(options=options)

    return act


def clean(store: Store) -> None:
    lakebed.open(store).expire(options={"hoodie.clean.commits.retained": 1})


def end_failed(store: Store) -> None:
    lakebed.open(store).expire(options=ENDED)


def end_old(store: Store) -> None:
    lakebed.open(store).expire(options=OLD)


def archive(store: Store) -> None:
    at_once = {"hoodie.write.lock.wait_time_ms": "0"}  # another archiver that is at work goes on only after this one
    lakebed.open(store).archive(options={**FEW, **at_once}, engine=LocalEngine(1))


def tag(store: Store) -> None:
    lakebed.open(store).tag("here")


def untag(store: Store) -> None:
    lakebed.open(store).delete_tag("here")


def restore(store: Store) -> None:
    """Back at the third commit, archived or not."""
    table = lakebed.open(store)
    done = [instant for instant in table.history(archived=True) if instant.state == "completed"]
    commits = [instant.time for instant in done if instant.action in ("commit", "deltacommit")]
    table.rollback(commits[2])


def failed(store: Store) -> None:
    """A write that died right before its end."""
    died = lakebed.open(store).write(some(0, 1, v="lost"), "upsert", QUIET).instant
    folder = Path(store.location) / ".hoodie" / "timeline"
    (path,) = folder.glob(f"{died}_*.deltacommit")
    path.unlink()


def another_writer(store: Store) -> None:
    table = lakebed.open(store)
    data = some(40, 41, v="rival")
    table.write(data if "dt" in table.schema.names else rings.batch(40, 41, v="rival"), "upsert", QUIET)


def an_expiry(store: Store) -> None:
    """A clean that retains one commit, and an archival unless another one is at work."""
    clean(store)
    with suppress(CommitConflictError):
        archive(store)


@dataclass(frozen=True)
class Verb:
    """A verb on a table of a `version` and `kind` after what `prepare` does."""

    act: Act
    kind: str = "MERGE_ON_READ"
    version: int = 9
    prepare: Act = lambda store: None
    done: tuple[type[Exception], ...] = ()
    """Errors of a run after one that has done it."""
    steps: bool = False
    """Whether it takes commits back one by one, so that readers may see those in between."""
    refused: tuple[str, ...] = ()
    """By whom it, or the other one, may be refused: "rival", "expiry"."""
    days: int = 0
    """How long ago the table was written."""

    def again(self, store: Store) -> None:
        """What a job runs that starts again."""
        with suppress(*self.done):
            self.act(store)


SORTED = {"lakebed.rewrite.what": "clustering", "hoodie.clustering.plan.strategy.sort.columns": "id"}
LOGS = {"lakebed.rewrite.what": "log-compaction", "hoodie.log.compaction.blocks.threshold": 3}
VERBS = {
    "an upsert": Verb(upsert),
    "an overwrite": Verb(overwrite, "COPY_ON_WRITE", 8),
    "a compaction": Verb(rewriting({"lakebed.rewrite.what": "compaction"}), version=6),
    "a log compaction": Verb(rewriting(LOGS, "withdraw")),
    "a clustering": Verb(rewriting(SORTED), "COPY_ON_WRITE", refused=("rival",)),
    "other buckets": Verb(rewriting(MERGE), "rings", refused=("rival",)),
    "a clean": Verb(clean, "COPY_ON_WRITE", 6),
    "old partitions": Verb(end_old, version=8, days=90),
    "a failed write": Verb(end_failed, prepare=failed),
    "an archival": Verb(archive, "COPY_ON_WRITE", prepare=clean, refused=("expiry",)),
    "a savepoint": Verb(tag, "COPY_ON_WRITE", done=(UsageError,), refused=("expiry",)),
    "a savepoint that goes": Verb(untag, "COPY_ON_WRITE", 6, prepare=tag, done=(NotInHistoryError,)),
    "a restore": Verb(restore, "COPY_ON_WRITE", 8, steps=True, refused=("expiry",)),
}


def rows(store: Store, as_of: Any = None) -> list[tuple[Any, ...]]:
    table = lakebed.open(store)
    columns = [name for name in table.schema.names if not name.startswith("_hoodie")]
    return sorted(tuple(row.values()) for row in table.read(columns, as_of=as_of).read_all().to_pylist())


def seen(store: Store) -> Any:
    """The rows, and those of the savepoint."""
    found = {"now": rows(store)}
    with suppress(NotInHistoryError):
        found["here"] = rows(store, "tag:here")
    return found


def goes_on(store: Store) -> None:
    """Nothing stays pending, and the next write adds its rows to those that are there."""
    end_failed(store)
    table, before = lakebed.open(store), seen(store)["now"]
    assert [i for i in table.history() if i.state != "completed" and i.action not in ("compaction",)] == []
    another_writer(store)
    assert {row for row in seen(store)["now"] if row[-1] != "rival"} == {row for row in before if row[-1] != "rival"}


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Make]:
    """Fresh copies of the table of a verb: five commits, each of which replaces rows of those before."""
    made: dict[str, Make] = {}

    def of(name: str) -> Make:
        if name not in made:
            verb, folder = VERBS[name], tmp_path_factory.mktemp("tables")
            original = folder / "original"
            if verb.kind == "rings":
                table = rings.orders(folder, verb.version)
                table.write(rings.batch(*range(0, 24, 2)), options=QUIET)
                original = Path(table.location)
            else:
                table = fresh_table(original, SCHEMA, version=verb.version, kind=verb.kind)
                with clock.set_clock(lambda: time.time() - verb.days * 86_400):
                    for turn in range(5):
                        table.write(some(*range(turn, 6), v=f"v{turn}"), "upsert", QUIET)
            verb.prepare(open_store(str(original)))
            made[name] = copies(original, folder)
        return made[name]

    return of


@pytest.mark.parametrize("name", VERBS)
def test_two_deaths_and_a_third_run(make: Callable[[str], Make], name: str) -> None:
    verb, whole = VERBS[name], make(name)()
    states = [seen(whole)]
    if verb.steps:
        states += [{"now": rows(whole, instant)} for instant in lakebed.open(whole).history()]
    verb.act(whole)
    new = seen(whole)
    for moment in two_deaths(verb.again, make(name), 3):
        assert seen(moment.store) in [*states, new], moment.where
        if moment.ended:
            assert seen(moment.store) == new, moment.where
            goes_on(moment.store)


@pytest.mark.parametrize("other", ["rival", "expiry"])
@pytest.mark.parametrize("name", VERBS)
def test_who_comes_between_plan_and_commit(make: Callable[[str], Make], name: str, other: str) -> None:
    verb, act = VERBS[name], another_writer if other == "rival" else an_expiry
    between = Meeting(make(name), verb.act, act, seen, LOCKS)
    around = Meeting(make(name), act, verb.act, seen, LOCKS, like=between)
    for meeting, moments in ((between, between.moments), (around, around.moments[-1:])):
        assert moments or meeting.refused_alone
        for moment in moments:
            store, refused = meeting.at(moment)
            assert other in verb.refused or refused == [None, None]
            goes_on(store)
