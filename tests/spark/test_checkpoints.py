"""Streams whose drivers die at every step, whose checkpoints are lost or older than the table, and that run twice at
once: an order that a seed decides, without a JVM. The sink has the rows of the source, each once, or the stream is
refused and the sink has a part of the source from its beginning.

`Driver` does what Spark's `MicroBatchExecution` does with a checkpoint; `tests/programs/test_killed.py` shows that of
Spark itself.

    python -m tests.spark.test_checkpoints [SEEDS] [FIRST] [CASE]
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitConflictError, StorageError
from lakebed.kernel.files import open_store
from lakebed.spark import worker
from lakebed.spark.stream_sink import USER_FILE, StreamSink, check_whole, commit_user, reports
from lakebed.testing.faults import Crash
from tests.spark.test_schedules import SCHEMA, Rows, check_clean, made, rows_of
from tests.spark.without_jvm import Frame, JobFailedError, Mortal, Schedule, mortal, without_jvm

CASES = ("hudi copy on write", "hudi merge on read", "paimon append", "paimon keyed", "iceberg append", "iceberg keyed")
BY_KEY = ("hudi merge on read", "paimon keyed", "iceberg keyed")
FATES = ("planned", "gives up", "tasks", "commit", "committed", "twin")
"""Where the driver of a batch dies, or what else happens to it."""
CHANGES = pa.schema([*SCHEMA, ("_row_kind", pa.string())])


class KilledError(Exception):
    """The driver died between two steps."""


@dataclass
class Stream:
    """A source, its sink, a checkpoint, and what the batches of the table's commits end at."""

    folder: Path
    case: str
    chance: random.Random
    source: list[Rows] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    replays: bool = False
    """Whether a checkpoint was lost: the table has later rows than those that are replayed."""

    @property
    def table(self) -> Path:
        return self.folder / "table"

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def grow(self) -> None:
        """More commits of the source. Those of tables with a key change some rows."""
        for _ in range(self.chance.randrange(1, 4)):
            first = 100 * len(self.source)
            rows = dict.fromkeys(range(first, first + self.chance.randrange(1, 8)), f"{len(self.source)}")
            old = list(self.source[-1])[:2] if self.source and self.case in BY_KEY else []
            self.source.append({**dict.fromkeys(old, f"{len(self.source)}"), **rows})

    def rows(self, commits: int) -> list[tuple[int, str]]:
        """What the first commits of the source make."""
        rows: Rows = {}
        for changes in self.source[:commits]:
            rows |= changes
        return sorted(rows.items())


class Driver:
    """One start of a query."""

    def __init__(self, stream: Stream, store: Mortal, limit: int) -> None:
        self.stream, self.store, self.limit = stream, store, limit
        checkpoint = open_store(stream.checkpoint)
        check_whole(checkpoint, False)
        task = StreamSink(store.location, {}, str(stream.checkpoint), commit_user(checkpoint), 2)
        self.call: Callable[[Frame, int], None] = worker.over_frame(worker.pack(task))

    def run(self, fate: str = "") -> None:
        """All batches until there is nothing new; the first one has a fate."""
        while self.batch(fate):
            fate = ""

    def batch(self, fate: str) -> bool:
        """One batch. False where there is nothing new."""
        planned, done = self._newest("offsets"), self._newest("commits")
        batch = planned if planned > done else planned + 1
        start = self._end(batch - 1)
        if batch > planned:
            end = min(start + self.limit, len(self.stream.source))
            if end == start:
                return False
            self._write(f"offsets/{batch}", f'v1\n{{"batchTimestampMs":{self.stream.chance.random()}}}\n{end}')
        end = self._end(batch)
        if fate == "planned":
            raise KilledError
        schedule = Schedule(self.stream.chance, self.store, gives_up=fate == "gives up", faults=0.2)
        self.call(self._frame(start, end, schedule, fate), batch)
        schedule.end()
        expected = self.stream.ends.setdefault(batch, end)
        assert expected == end, f"batch {batch} ends at {end}, it was committed with {expected}, and skipped"
        if fate == "committed":
            raise KilledError
        if self._newest("commits") >= batch:
            raise KilledError  # Spark finds that another query is at work
        self._write(f"commits/{batch}", "v1\n{}")
        return True

    def _frame(self, start: int, end: int, schedule: Schedule, fate: str) -> Frame:
        by_key = self.stream.case in BY_KEY
        parts: list[list[pa.RecordBatch]] = [[], []]
        for commit in self.stream.source[start:end]:
            rows = [{"id": key, "p": "ab"[key % 2], "v": v, "_row_kind": "+U"} for key, v in commit.items()]
            for part, own in enumerate((rows[::2], rows[1::2])):
                data = pa.RecordBatch.from_pylist(own, CHANGES)
                parts[part] += [data if by_key else data.select(SCHEMA.names)] if own else []

        def between() -> None:
            if fate == "tasks":
                self.store.crashed = True
                raise Crash("the driver was killed")
            if fate == "commit":
                self.store.kill_at(self.stream.chance.randrange(1, 20))
            if fate == "twin":
                Driver(self.stream, self.store, self.limit).batch("")

        return Frame(CHANGES if by_key else SCHEMA, parts, schedule, after=between)

    def _newest(self, folder: str) -> int:
        names = [int(path.name) for path in (self.stream.checkpoint / folder).glob("*") if path.name.isdigit()]
        return max(names, default=-1)

    def _end(self, batch: int) -> int:
        if batch < 0:
            return 0
        return int((self.stream.checkpoint / f"offsets/{batch}").read_text().splitlines()[-1])

    def _write(self, name: str, text: str) -> None:
        path = self.stream.checkpoint / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def play(folder: Path, case: str, seed: int) -> Mapping[str, int]:
    """Some starts of one query. How often it was refused, replayed a batch, and so on."""
    chance = random.Random(f"{case} {seed}")
    stream = Stream(folder, case, chance)
    folder.mkdir(parents=True)
    made(stream.table, case)
    stream.checkpoint.mkdir()
    counts = dict.fromkeys(("refused", "skipped", "lost"), 0)
    copy: Path | None = None
    for start in range(chance.randrange(3, 6)):
        stream.grow()
        event = chance.choice(("", "", "copy", "restore", "part lost", "lost" if case in BY_KEY else ""))
        if event == "restore" and copy is not None:
            shutil.rmtree(stream.checkpoint)
            shutil.copytree(copy, stream.checkpoint)
        elif event == "part lost" and (stream.checkpoint / "commits").exists():
            check_part_lost(stream)
            counts["lost"] += 1
        elif event == "lost":
            shutil.rmtree(stream.checkpoint)
            stream.checkpoint.mkdir()
            stream.ends, stream.replays, copy = {}, True, None
        at = f"{case}, seed {seed}, start {start}"
        if not started(stream, chance.choice(FATES), chance.choice((1, 2, 9)), at):
            counts["refused"] += 1
            break
        if event == "copy":
            copy = folder / f"copy-{start}"
            shutil.copytree(stream.checkpoint, copy)
    else:
        if started(stream, "", 9, f"{case}, seed {seed}, end"):
            assert rows_of(stream.table) == stream.rows(len(stream.source)), f"{case}, seed {seed}"
        else:
            counts["refused"] += 1
    counts["skipped"] += sum(one.outcome == "skipped" for one in reports(open_store(stream.checkpoint)))
    check_clean(stream.table, dict(rows_of(stream.table)))
    return counts


def started(stream: Stream, fate: str, limit: int, at: str) -> bool:
    """Start the query once. False where it was refused, since its checkpoint is older than the table."""
    store = mortal(stream.table)
    before = max(stream.ends.values(), default=0)
    with without_jvm(store):
        driver = Driver(stream, store, limit)
        refused = False
        try:
            driver.run(fate)
        except (KilledError, Crash, JobFailedError):
            pass
        except CommitConflictError as error:
            assert "the checkpoint is older than the table" in str(error), at
            refused = True
        store.revive()
    if refused:
        batch = driver._newest("offsets")
        assert driver._end(batch) != stream.ends[batch], f"{at}: refused, and batch {batch} ends where it did"
    states = [stream.rows(commits) for commits in range(before, len(stream.source) + 1)]
    assert stream.replays or rows_of(stream.table) in states, f"{at}, {fate}: {rows_of(stream.table)}"
    return not refused


def check_part_lost(stream: Stream) -> None:
    """A checkpoint that lost a part is refused before anything is read, and as good as new when it is back."""
    part = stream.chance.choice((USER_FILE, "offsets"))
    path, away = stream.checkpoint / part, stream.folder / "away"
    path.rename(away)
    with pytest.raises(StorageError, match=f"the checkpoint has no {part}"):
        check_whole(open_store(stream.checkpoint), False)
    away.rename(path)


@pytest.mark.parametrize("case", CASES)
def test_the_sink_has_the_rows_of_the_source(tmp_path: Path, case: str) -> None:
    for seed in range(2):
        play(tmp_path / str(seed), case, seed)


def test_an_older_checkpoint_is_refused_where_rows_would_be_lost(tmp_path: Path) -> None:
    for case in ("hudi copy on write", "paimon append", "iceberg append"):
        stream = Stream(tmp_path / case, case, random.Random(case))
        made(stream.table, case)
        stream.checkpoint.mkdir()
        stream.grow()
        assert started(stream, "", 9, case)
        shutil.copytree(stream.checkpoint, stream.folder / "copy")
        stream.grow()
        assert started(stream, "", 9, case)
        shutil.rmtree(stream.checkpoint)
        shutil.copytree(stream.folder / "copy", stream.checkpoint)
        assert started(stream, "", 9, case)  # the same rows as before, which are skipped
        stream.grow()
        assert started(stream, "", 9, case)
        shutil.rmtree(stream.checkpoint)
        shutil.copytree(stream.folder / "copy", stream.checkpoint)
        assert not started(stream, "", 9, case)
        assert rows_of(stream.table) == stream.rows(len(stream.source))


def main(seeds: str = "200", first: str = "0", wish: str = "") -> None:
    total = dict.fromkeys(("refused", "skipped", "lost"), 0)
    for seed in range(int(first), int(first) + int(seeds)):
        for case in CASES:
            if wish in case:
                with tempfile.TemporaryDirectory() as folder:
                    for name, count in play(Path(folder) / "s", case, seed).items():
                        total[name] += count
    print(f"{seeds} seeds: well; {total}")


@pytest.mark.parametrize("table_format", ["hudi", "paimon", "iceberg"])
def test_a_checkpoint_of_another_sink_goes_on_only_where_the_table_has_its_batches(
    tmp_path: Path, table_format: str
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False)])
    table = lakebed.create(tmp_path / "t", table_format, schema, ["id"])
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text("v1")
    checkpoint = open_store(tmp_path / "checkpoint")
    with pytest.raises(StorageError, match="another sink made it"):
        check_whole(checkpoint, table.sink_for(schema).knows_batches)
    if table_format == "hudi":
        named = {"hoodie.datasource.write.streaming.checkpoint.identifier": "orders"}
        check_whole(checkpoint, lakebed.open(tmp_path / "t", named).sink_for(schema).knows_batches)


if __name__ == "__main__":
    main(*sys.argv[1:])
