"""One table's life with several engines: random steps, each by a random engine, and what a dictionary says of the rows.

python -m tests.interop.hudi_life RELEASE SEED-SEED [--steps 12] [--folder FOLDER] [--wish FIELD=VALUE ...]
"""

from __future__ import annotations

import argparse
import copy
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.errors import DataCleanedError, UnsupportedError
from lakebed.formats.hudi.layout import META_COLUMNS
from lakebed.model.instant import Instant
from tests.interop.hudi_actors import UPKEEP, Actor, Bundle, EngineError, Lakebed, Release, environment, hudi_rs, image
from tests.interop.hudi_deaths import die
from tests.interop.hudi_indexed import check_indexed
from tests.interop.hudi_shape import METADATA, Row, Shape, as_text
from tests.tables.hudi.listing import listed, serving, walked

WRITES = ("commit", "deltacommit", "replacecommit")
SERVICES = ("schedule", "run", "compact", "cluster", "clean", "archive")
META = ("_hoodie_record_key", "_hoodie_partition_path")
Rows = dict[tuple[Any, ...], Row]
KEYS = 24


class _OverError(Exception):
    """A release failed half way at something that it cannot do, and nobody knows what it left."""


class Life:
    """A table, the engines, and the rows that must be in it."""

    def __init__(
        self, release: Release, shape: Shape, path: Path, seed: int, ours: str = "", log: Any = None, deaths: float = 0
    ) -> None:
        self.shape, self.path = shape, path
        self.chance = random.Random(seed)
        self.bundle, self.lakebed = Bundle(release, shape, path), Lakebed(shape, path)
        self.rows: Rows = {}
        self.number = 0
        self.told: list[str] = []
        self.refused: Counter[str] = Counter()
        self._ours, self._log, self._deaths = ours, log, deaths
        self._savepoints: dict[str, Rows] = {}
        self._before: Rows | None = None
        self._touched: set[tuple[Any, ...]] | None = None
        self._planned = self._hard = self._dead = self._unsure = self._unclustered = False
        self._dies: str | float | None = None
        self._wrote = ("", "")
        self._fresh_key = KEYS

    # ---- steps ----

    def live(self, steps: int) -> None:
        """So many steps, and a look at the rows by every engine after each of them."""
        try:
            for _ in range(steps):
                self.step()
                self.check()
            self._deaths = 0.0
            for _ in range(3 * self._unended):
                self.step()
                self.check()
            self.check_at_the_end()
        except _OverError as error:
            self._note(f"the end: {error}")

    def play(self, script: str) -> None:
        """The steps that a script names, each by the engine named before it: `lakebed clean, release upsert`. A moment
        after a step of lakebed is where its process dies: `lakebed upsert inflight`."""
        for line in script.split(","):
            actor, name, *more = line.split()
            self._ours = "yes" if actor == "lakebed" else "no"
            self._dies = more[0] if more else None
            self._step(getattr(self, f"_{name}"))
            self._dies = None
            self.number += 1
            self.check()
        self.check_at_the_end()

    def step(self) -> None:
        """One step by one engine."""
        choices: list[tuple[float, Callable[[], None]]] = [
            (5, self._upsert), (2, self._insert), (1, self._bulk_insert), (2, self._delete), (1, self._overwrite),
            (0.4, self._overwrite_table), (0.7, self._clean), (0.8, self._upkeep),
            (0.8, self._savepoint), (0.8, self._rollback), (0.6, self._died),
        ]  # fmt: skip
        if self.shape.merge_on_read:
            choices += [(1.5, self._plan_compaction), (2 if self._planned else 0, self._compact)]
            if not self._planned:
                choices.append((1, self._compact_logs))
        if self.shape.index != "BUCKET" and not self._planned:
            choices.append((1, self._cluster))
        if self.shape.partition_by:
            choices.append((0.5, self._delete_partition))
        if self._savepoints:
            choices += [(0.8, self._restore), (0.4, self._delete_savepoint)]
        if self._dead:  # services do not take back what a dead writer left, and then nobody can
            choices = [(1, self._insert), (1, self._upsert), (1, self._delete)]
            if self.shape.locks:
                choices = [(1, self._clean)]
        if self._unsure:
            choices = [(1, self._restore)]
        if self._unclustered:
            choices = [(1, self._cluster)]
        if not self.number:
            choices = [(1, self._insert), (1, self._upsert), (1, self._bulk_insert)]
        if self._ours == "services":
            services = (self._clean, self._archive, self._cluster, self._plan_compaction, self._compact)
            choices = [(0.8, self._archive), *choices]
            choices = [(weight * 3 if step in services else weight, step) for weight, step in choices]
        weights, steps = zip(*choices, strict=True)
        ordinary = self.number and not self._unended and self.chance.random() < self._deaths
        self._dies = self.chance.random() if ordinary else None
        self._step(self.chance.choices(steps, weights)[0])
        self._dies = None
        self.number += 1

    @property
    def _unended(self) -> bool:
        """Whether something that died waits for another step to end it."""
        return self._dead or self._unsure or self._unclustered

    def _step(self, step: Callable[[], None]) -> None:
        self._touched = None
        before, self._before = self._before, None
        self._known_before = before
        step()

    def _by(self, what: str, do: Callable[[Actor], None]) -> bool:
        """Whether an engine did it: ours where it does that, else the release; False where neither can. Buckets of
        consistent hashing lakebed alone replaces and clusters: Hudi's own leaves them with file groups that are out of
        use, and gives rows that it clusters its own commit time."""
        if self._dies is not None:
            return self._killed(what, do)
        kind = "services" if what.split()[0] in SERVICES else "writes"
        lucky = self.chance.random() < 0.6
        ours = self._ours in ("yes", kind) if self._ours else lucky
        actors: list[Actor] = [self.lakebed, self.bundle] if ours else [self.bundle, self.lakebed]
        if self.shape.index == "CONSISTENT" and what.startswith(("insert_overwrite", "delete_partition", "cluster")):
            actors = [self.lakebed]
        for actor in actors:
            began = time.monotonic()
            try:
                do(actor)
            except (UnsupportedError, AttributeError) as error:
                self.refused[f"{what}: {error}"] += 1
                continue
            except EngineError as error:
                if self._excused(what, str(error)):
                    if not self.number:
                        raise _OverError(f"{actor.name} cannot begin such a table") from error
                    self._note(f"{actor.name} cannot {what}: {str(error)[:200]}")
                    self._dead = " of " in what
                    return False
                raise AssertionError(f"step {self.number}, {actor.name}, {what}: {error}") from error
            except Exception as error:
                error.add_note(f"step {self.number}: {actor.name}, {what}")
                raise
            self._note(f"{self.number} {actor.name} {what} {time.monotonic() - began:.1f}s")
            self._wrote, self._dead = (actor.name, what.split()[0]), False
            self._unsure = self._unclustered = False
            return True
        return False

    def _killed(self, what: str, do: Callable[[Actor], None]) -> bool:
        """lakebed begins it and dies. Whether it was done nevertheless."""
        before = self._done()
        try:
            death = die(self.shape, self.path, do, self._dies or 0.0)
        except UnsupportedError as error:
            self.refused[f"{what}: {error}"] += 1
            return False
        if death is None:
            return False
        self._note(f"{self.number} lakebed {what} {death}")
        (self.path / ".hoodie" / "lock").unlink(missing_ok=True)  # who holds it is dead; people take it away then
        done = {action for _, action in self._done() - before}
        pending = {i.action for i in self.lakebed.table.history() if i.state != "completed"}
        self._planned, self._hard = "compaction" in pending, True
        self._dead = bool(pending & {*WRITES}) and what != "cluster"
        self._unsure = "restore" in pending
        self._unclustered = bool(pending & {"replacecommit", "clustering"}) and what == "cluster"
        self._wrote = ("lakebed", what.split()[0])
        return bool(done & ({"restore"} if what.startswith("restore") else {*WRITES, "clean", "savepoint"}))

    def _done(self) -> set[tuple[str, str]]:
        return {(i.time, i.action) for i in self.lakebed.table.history() if i.state == "completed"}

    def _excused(self, what: str, error: str) -> bool:
        """What a release cannot do at all, whoever wrote the table."""
        if what.startswith("rollback") and "is earlier than the latest compaction" in error:
            raise _OverError(error)
        if what.startswith("restore") and "Please delete metadata table and retry" in error:
            raise _OverError(error)
        if "HoodieWriteStat.getPrevCommit()" in error:  # its own dead writer of a bucketed table
            raise _OverError(error)
        if self.shape.version == 6 and what.startswith("rollback"):
            return ".hoodie/timeline does not exist" in error
        if what.startswith("delete of") and self._wrote == ("1.1.1", "bulk_insert"):
            return '"content" is null' in error
        return self.shape.release == "1.0.2" and '"fieldValue" is null' in error

    def _note(self, line: str) -> None:
        self.told.append(line)
        if self._log:
            print(line, file=self._log, flush=True)

    # ---- writes ----

    def _fresh(self, count: int) -> list[Row]:
        """Rows of keys that never were in the table: an index of Hudi's that looks into base files only finds a key
        there that a log deletes, beside the one that an insert put elsewhere."""
        self._fresh_key += count
        return [self._row(key) for key in range(self._fresh_key - count, self._fresh_key)]

    def _some(self, least: int, most: int) -> list[int]:
        """Keys to upsert."""
        known = {int(row["id"][1:]) for row in self.rows.values()} | set(range(KEYS))
        return self.chance.sample(sorted(known), self.chance.randrange(least, most) if self.number else 12)

    def _row(self, key: int, late: bool = False) -> Row:
        ts = self.number * 10 + self.chance.randrange(3) - (25 if late else 0)
        return self.shape.row(self.chance, key, ts)

    def _write(self, operation: str, rows: list[Row], more: dict[str, str] | None = None, read: bool = False) -> bool:
        """One commit. With `read` rows come with the meta columns of those that are in the table."""
        table = pa.Table.from_pylist(rows, schema=self.shape.schema)
        if read:
            held = self.lakebed.table.read([*META_COLUMNS, "id"]).read_all()
            place = {name: at for at, name in enumerate(held["id"].to_pylist())}
            meta = held.take([place[row["id"]] for row in rows]).select(META_COLUMNS)
            table = pa.table([*meta.columns, *table.columns], names=[*META_COLUMNS, *table.schema.names])
        first = not self.number
        return self._by(
            f"{operation} of {len(rows)}" + (" with upkeep" if more else ""),
            lambda actor: actor.write(operation, table, more or {}, first),
        )

    def _insert(self) -> None:
        self._add("insert")

    def _bulk_insert(self) -> None:
        buckets = self.shape.index in ("BUCKET", "CONSISTENT")  # Hudi's own makes a bucket twice
        self._add("insert" if buckets and (self.number or self.shape.index == "CONSISTENT") else "bulk_insert")

    def _add(self, operation: str) -> None:
        rows = self._fresh(self.chance.randrange(2, 9) if self.number else 12)
        if self._write(operation, rows):
            self._applied(rows)

    def _upsert(self, more: dict[str, str] | None = None) -> None:
        if not self.shape.keys:
            return self._change_read(more) if self.number and self.rows else self._add("insert")
        late = self.shape.event_time and self.number > 2 and self.chance.random() < 0.3
        keys = self._some(2, 9)
        rows = [self._row(key, late and self.chance.random() < 0.5) for key in keys]
        if self.shape.is_global and self.number and not late and self.chance.random() < 0.3:
            key = keys[0]
            rows[0] = self.shape.row(self.chance, key, self.number * 10 + 5, moved=True)
        if self.chance.random() < 0.3:  # two rows of a key in one batch: the newer one counts
            older = dict(rows[-1], x="older", ts=rows[-1]["ts"] - 1)
            rows.insert(self.chance.randrange(len(rows)), older)
        if self._write("upsert", rows, more):
            self._applied(rows)

    def _upkeep(self) -> None:
        self._upsert(UPKEEP)

    def _change_read(self, more: dict[str, str] | None = None) -> None:
        """Change rows of a table without record keys: they come with the meta columns that they were read with."""
        chosen = [self.rows[key] for key in self._chosen()]
        rows = [{**self._row(int(row["id"][1:])), "id": row["id"]} for row in chosen]
        if self._write("upsert", rows, more, read=True):
            self._applied(rows)

    def _chosen(self) -> list[tuple[Any, ...]]:
        """Some rows of the table."""
        return self.chance.sample(sorted(self.rows, key=str), min(len(self.rows), self.chance.randrange(1, 5)))

    def _applied(self, rows: list[Row]) -> None:
        self._before, touched = dict(self.rows), set()
        for row in rows:
            key = self.shape.key(row)
            known = self.rows.get(key)
            if known is None or row["ts"] >= known["ts"] or not self.shape.event_time:
                self.rows[key] = row
                touched.add(key)
        late = any(self.rows[self.shape.key(row)] is not row for row in rows)
        self._touched = None if late else touched

    def _delete(self) -> None:
        if not self.rows:
            return
        keys = self._chosen()
        rows = [self.rows[key] for key in keys]
        if self._write("delete", rows, read=not self.shape.keys):
            self._before = dict(self.rows)
            for key in keys:
                del self.rows[key]

    def _overwrite(self) -> None:
        self._replace("insert_overwrite")

    def _overwrite_table(self) -> None:
        self._replace("insert_overwrite_table")

    def _replace(self, operation: str) -> None:
        keys = self.chance.sample(range(KEYS), self.chance.randrange(1, 5))
        rows = [self._row(key) for key in keys]
        if self.shape.is_global:  # a key that another partition keeps would be there twice
            gone = {self._part(row) for row in rows}
            kept = {row["id"] for row in self.rows.values() if self._part(row) not in gone}
            rows = [row for row in rows if row["id"] not in kept] or self._fresh(2)
        if self._planned:
            return
        if self._write(operation, rows):
            self._before = dict(self.rows)
            gone = {self._part(row) for row in rows}
            whole = operation == "insert_overwrite_table"
            self.rows = {key: row for key, row in self.rows.items() if not whole and self._part(row) not in gone}
            for row in rows:
                self.rows[self.shape.key(row)] = row

    def _part(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.shape.partition_by)

    def _delete_partition(self) -> None:
        if not self.rows or self._planned:
            return
        paths = {text[1]: text[0] for text in self.lakebed.read([self.columns[0], META[1]])}
        chosen = self.chance.choice(sorted(str(path) for path in paths))
        some = next(row for row in self.rows.values() if self._named(row) == paths[chosen])
        table = pa.Table.from_pylist([some], schema=self.shape.schema)
        if self._by(f"delete_partition {chosen}", lambda actor: actor.delete_partition(chosen, table)):
            self._before = dict(self.rows)
            self.rows = {key: row for key, row in self.rows.items() if self._part(row) != self._part(some)}

    # ---- services ----

    def _plan_compaction(self) -> None:
        if not self._planned and self._by("schedule compaction", lambda actor: actor.schedule_compaction()):
            self._planned = any(i.action == "compaction" for i in self.lakebed.table.history())
            self._hard = self._hard or self._planned

    def _compact(self) -> None:
        if self._by("run compaction", lambda actor: actor.run_compaction()):
            self._planned = False

    def _compact_logs(self) -> None:
        self._by("compact logs", lambda actor: actor.compact_logs())

    def _cluster(self) -> None:
        self._by("cluster", lambda actor: actor.cluster())

    def _clean(self) -> None:
        if self._dead and self.shape.locks:
            time.sleep(4)  # so long a writer without a heartbeat may be alive for a release
        self._by("clean", lambda actor: actor.clean())

    def _archive(self) -> None:
        self._by("archive", lambda actor: actor.archive())

    def _newest(self) -> list[Instant]:
        return [i for i in self.lakebed.table.history() if i.action in WRITES and i.state == "completed"]

    def _savepoint(self) -> None:
        instant = self._newest()[-1].time
        if instant in self._savepoints or self._planned:
            return
        if self._by(f"savepoint {instant}", lambda actor: actor.savepoint(instant)):
            self._savepoints[instant] = copy.deepcopy(self.rows)

    def _delete_savepoint(self) -> None:
        instant = self.chance.choice(sorted(self._savepoints))
        if self._by(f"delete savepoint {instant}", lambda actor: actor.delete_savepoint(instant)):
            del self._savepoints[instant]

    def _restore(self) -> None:
        instant = max(self._savepoints)
        if self._by(f"restore {instant}", lambda actor: actor.restore(instant)):
            self.rows, self._hard = copy.deepcopy(self._savepoints[instant]), True
            self._planned = any(i.action == "compaction" for i in self.lakebed.table.history())

    def _rollback(self) -> None:
        writes = self._newest()
        known = self._known_before
        if known is None or len(writes) < 2 or writes[-1].time in self._savepoints or self._planned:
            return
        *_, before, newest = sorted(writes, key=lambda instant: instant.time)
        try:
            self.lakebed.table.rollback(before, dry_run=True)
        except DataCleanedError:
            return
        self._dies = None  # how one goes on is told for restores
        if self._by(f"rollback {newest.time}", lambda actor: actor.rollback(newest, before)):
            self.rows, self._hard = known, True

    def _died(self) -> None:
        """A writer whose process ended just before it published, or before its metadata table did: completed files are
        not there."""
        if self._planned:
            return
        before, last = dict(self.rows), {i.time for i in self._newest()}
        self._upsert()
        (died,) = {i.time for i in self._newest()} - last or {""}
        if died:
            folders = [self.path / ".hoodie"]
            if self.chance.random() < 0.5:  # its metadata table did not get so far either
                folders.append(folders[0] / "metadata" / ".hoodie")
            names = re.compile(rf"\.?{died}(_\d+)?\.(commit|deltacommit)(\.crc)?")
            lost = [
                f for at in folders for f in [*at.glob("*"), *(at / "timeline").glob("*")] if names.fullmatch(f.name)
            ]
            for file in lost:
                file.unlink()
            self._hard = self._dead = True
            self._note(f"  {died} lost {', '.join(str(file.relative_to(self.path)) for file in lost)}")
        self.rows, self._before, self._touched = before, None, None

    # ---- what the engines say ----

    @property
    def columns(self) -> list[str]:
        """The columns that are compared. Record keys that nobody chose are not."""
        first = META[0] if self.shape.keyed else "id"
        return [first, *(name for name in self.shape.schema.names if name not in (first, *self.shape.unread))]

    def _wanted(self, keys: set[tuple[Any, ...]] | None = None) -> list[list[str | None]]:
        rows = [row for key, row in self.rows.items() if keys is None or key in keys]
        names = self.columns[1:]
        return [[self._named(row), *(as_text(row[name]) for name in names)] for row in rows]

    def _named(self, row: Row) -> str:
        """What names a row in both engines."""
        return self.shape.record_key(row) if self.shape.keyed else str(row["id"])

    def check(self) -> None:
        """Every engine reads the rows of the dictionary."""
        if self._unsure:  # a restore has gone half of its way
            return
        self._compare("lakebed", self.lakebed.read(self.columns), self._wanted())
        if self._stops_at_rollbacks:
            return
        self._compare(self.bundle.name, self.bundle.read(self.columns), self._wanted())
        if self.shape.metadata in METADATA[2:]:
            self._check_filter()
        if not self.shape.meta_columns:  # rows say neither their path nor when they came
            return
        paths = Counter(
            (row[1], tuple(row[2:])) for row in self.lakebed.read([*META, *self.shape.partition_by])
        )  # the path of a partition is the same whoever wrote it
        by_source: dict[Any, set[Any]] = {}
        for path, source in paths:
            by_source.setdefault(source, set()).add(path)
        assert all(len(found) == 1 for found in by_source.values()), by_source
        if self._touched is not None and self.number > 1:
            self._check_last_commit(self._touched)

    @property
    def _stops_at_rollbacks(self) -> bool:
        """Whether the release misses rows: 0.15.0 reads no log beyond a rollback newer than the newest commit, and its
        writes roll failed ones back after they have chosen their own instant."""
        if self.shape.release != "0.15.0" or not self.shape.merge_on_read:
            return False
        back = [i.time for i in self.lakebed.table.history() if i.action == "rollback" and i.state == "completed"]
        return max(back, default="") > self._newest()[-1].time

    def _check_filter(self) -> None:
        """A condition that the statistics of the metadata table decide about files."""
        low = self.chance.randrange(-40, 40)
        wanted = [row for row in self._wanted() if row[self.columns.index("n")] is not None]
        wanted = [row for row in wanted if int(row[self.columns.index("n")] or 0) >= low]
        skipping = {"hoodie.enable.data.skipping": "true", "hoodie.metadata.enable": "true"}
        where = f"n >= {low}"
        if self.chance.random() < 0.5:  # of two columns, one that a file has no statistics of counts as all null
            where += " and f >= 0.2"
            wanted = [row for row in wanted if float(row[self.columns.index("f")] or 0) >= 0.2]
        self._compare(f"lakebed where {where}", self.lakebed.read(self.columns, where), wanted)
        self._compare(f"{self.bundle.name} where {where}", self.bundle.read(self.columns, where, skipping), wanted)

    def _check_last_commit(self, touched: set[tuple[Any, ...]]) -> None:
        """The release's incremental query of the newest commit gives what that commit wrote."""
        services = serving(self.lakebed.table)
        writes = [i for i in self._newest() if i.time not in services]
        moments = sorted((i.completed or i.time) if self.shape.version >= 8 else i.time for i in writes)
        if len(moments) < 2:
            return
        if self.bundle.name == "1.0.2" and self.shape.version == 8:  # it takes the commit at the beginning too
            moments[-2] = str(int(moments[-2]) + 1)
        found = self.bundle.read(
            self.columns,
            more={
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": moments[-2],
                "hoodie.datasource.read.end.instanttime": moments[-1],
            },
        )
        self._compare(f"{self.bundle.name} incremental", found, self._wanted(touched))
        if self.shape.change_log and self._before is not None:
            self._check_changes(moments[-2], moments[-1])

    def _check_changes(self, begin: str, end: str) -> None:
        """Both engines say the same of each row before and after the newest commit. A late row may count as an update
        that changes nothing."""
        before, after = ({self._named(row): row for row in rows.values()} for rows in (self._before, self.rows))
        replaced = self._wrote[1].startswith(("insert_overwrite", "delete_partition"))
        wanted: Counter[Any] = Counter()
        for key in {*before, *after}:
            old, new = (seen[key] and image(seen[key]) if key in seen else None for seen in (before, after))
            moved = bool(old and new) and self._part(before[key]) != self._part(after[key])
            if moved or (replaced and old and new and before[key] is not after[key]):
                wanted.update([("d", old, None), ("i", None, new)])
            elif old != new:
                wanted.update([("i" if old is None else "d" if new is None else "u", old, new)])
        for actor in (self.lakebed, self.bundle):
            found = Counter(each for each in actor.changes(begin, end) if each[1] != each[2])
            assert found == wanted, f"{self.shape} after step {self.number - 1}: {actor.name} has the changes\n  " + (
                f"{sorted((found - wanted).elements(), key=str)}, not\n  "
                f"{sorted((wanted - found).elements(), key=str)}\n  " + "\n  ".join(self.told)
            )

    def check_at_the_end(self) -> None:
        """Other readers, and the whole history."""
        if self.shape.locks or self._hard:  # until then what dead writers left is there, and what half a clean did
            self.lakebed.clean()
        rows = hudi_rs([self.path], self.columns)[0]
        if isinstance(rows, str):
            self._note(f"hudi-rs: {rows[:200]}")
        elif (
            self.shape.merge_on_read and self._hard
        ):  # it reads logs of commits that were rolled back, and of slices a compaction is to begin
            self._note(f"hudi-rs: {len(rows)} rows, not {len(self.rows)}")
        else:
            self._compare("hudi-rs", [[as_text(value) for value in row] for row in rows], self._wanted(), rs=True)
        ours = {(i.time) for i in lakebed.open(self.path).history(archived=True) if i.archived}
        theirs = {time for time, _ in self.bundle.archived()}
        assert ours == theirs, (sorted(ours - theirs), sorted(theirs - ours))
        self._check_listing()

    def _check_listing(self) -> None:
        """The release plans by the metadata table that both have kept: it lists what is there."""
        table = lakebed.open(self.path)
        ours = listed(table) if self.shape.metadata != "off" else None
        assert ours is not None or not self.shape.folds, self.told
        if not ours:
            return
        pending = [i.time for i in table.history() if i.state != "completed"]
        theirs, there = (
            {file for file in files if not any(f"_{time}." in file[1] for time in pending)}
            for files in (
                self.bundle.listed(),
                [(part, name, size) for part, files in walked(table).items() for name, size in files.items()],
            )
        )
        assert theirs == there, (sorted(theirs - there), sorted(there - theirs), self.told)
        self._note(f"{self.bundle.name} lists all {len(there)} files")
        if self.shape.metadata in METADATA[2:] and self.bundle.name == "1.1.1":
            self._note(f"{self.bundle.name} finds {check_indexed(self.path, self.bundle, 'n')}")

    def _compare(self, who: str, found: Any, wanted: Any, rs: bool = False) -> None:
        if rs:  # it spells some values its own way
            plain = [self.columns.index(name) for name in ("id", "ts", "x", "n", "day")]
            found = [[row[number] for number in plain] for row in found]
            wanted = [[row[number] for number in plain] for row in wanted]
        more = [row for row in map(tuple, found) if row not in set(map(tuple, wanted))]
        less = [row for row in map(tuple, wanted) if row not in set(map(tuple, found))]
        same = Counter(map(tuple, found)) == Counter(map(tuple, wanted))
        assert same, f"{self.shape} after step {self.number - 1}: {who} has {len(found)} rows, not {len(wanted)};\n" + (
            f"  too many: {more[:3]}\n  missing: {less[:3]}\n  " + "\n  ".join(self.told)
        )


def main() -> None:
    """Many lives, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release")
    parser.add_argument("seeds")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--folder", default="")
    parser.add_argument("--wish", action="append", default=[])
    parser.add_argument("--ours", choices=["yes", "no", "services", "writes"], default="")
    parser.add_argument("--deaths", type=float, default=0.0, help="the share of steps in which lakebed's process dies")
    parser.add_argument("--quiet", action="store_true")
    given = parser.parse_args()
    environment()
    first, _, last = given.seeds.partition("-")
    folder = Path(given.folder or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    release = Release(given.release, folder)
    failed: list[int] = []
    refused: Counter[str] = Counter()
    for seed in range(int(first), int(last or first) + 1):
        wanted = {name: _value(text) for name, text in (wish.split("=") for wish in given.wish)}
        shape = Shape.drawn(given.release, random.Random(seed), wanted)
        print(f"=== {seed}: {shape}", flush=True)
        log = None if given.quiet else sys.stdout
        life = Life(release, shape, folder / f"life_{seed}", seed, given.ours, log, given.deaths)
        try:
            life.live(given.steps)
        except Exception:
            failed.append(seed)
            print("\n".join(traceback.format_exc().splitlines()[-40:]), flush=True)
        refused += life.refused
        print(f"lakebed did {dict(life.lakebed.changed)}", flush=True)
    for text, count in refused.most_common():
        print(f"refused {count} x {text[:300]}")
    print(f"failed: {failed}")
    release.close()


def _value(text: str) -> Any:
    if "," in text:
        return tuple(filter(None, text.split(",")))
    return {"True": True, "False": False}.get(text, int(text) if text.isdigit() else text)


if __name__ == "__main__":
    main()
