"""The steps of an Iceberg table's life, each by an engine that chance picks, and what they make of the model."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.interop.iceberg_actors import Actor, Place
from tests.interop.iceberg_equality import delete_equal, global_spec
from tests.interop.iceberg_state import PARTS, Column, Row, Rows, Shape, table_of
from tests.interop.lives import done_by


@dataclass
class Line:
    """A branch: its rows, those of the snapshots that it had, and how far it has come."""

    rows: Rows
    head: int | None = None


@dataclass
class Steps:
    """What is done to a table. `states` are the rows and columns of snapshots by id."""

    shape: Shape
    place: Place
    chance: random.Random
    actors: Sequence[Actor]
    log: Any = None
    main: Line = field(default_factory=lambda: Line({}))
    branches: dict[str, Line] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    staged: dict[str, tuple[int, Rows]] = field(default_factory=dict)
    states: dict[int, tuple[Rows, tuple[Column, ...]]] = field(default_factory=dict)
    spec: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    version: int = 0
    number: int = 0
    fresh: int = 0
    who: str = ""
    refused: Counter[str] = field(default_factory=Counter)
    traits: set[str] = field(default_factory=set)
    """What has happened to the table that some reader does not take."""

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.place.columns

    def by(self, what: str, do: Callable[[Any], None]) -> str:
        """The name of the engine that did it; empty where none can."""
        return done_by(self.actors, self.who, self.chance, what, do, self.number, self.refused, self.note)

    def note(self, line: str) -> None:
        if self.log:
            print(line, file=self.log, flush=True)

    # ---- rows ----

    def row(self, number: int, part: str | None = None) -> Row:
        row = {column.held: column.value(self.chance) for column in self.columns}
        return row | {"id": number, "part": part or self.chance.choice(PARTS)}

    def new_rows(self, count: int, part: str | None = None) -> list[Row]:
        self.fresh += count
        return [self.row(number, part) for number in range(self.fresh - count, self.fresh)]

    def line(self) -> tuple[str, Line]:
        """Mostly main."""
        if self.branches and self.chance.random() < 0.3:
            name = self.chance.choice(sorted(self.branches))
            return name, self.branches[name]
        return "main", self.main

    def some(self, line: Line) -> list[int]:
        return self.chance.sample(sorted(line.rows), min(len(line.rows), self.chance.randrange(1, 6)))

    def wrote(self, line: Line, rows: Rows) -> None:
        line.rows = rows

    def _append(self) -> None:
        branch, line = self.line()
        rows = self.new_rows(self.chance.randrange(3, 12))
        if self.by(f"append to {branch}", lambda actor: actor.append(rows, branch=branch)):
            self.wrote(line, line.rows | {row["id"]: row for row in rows})

    def _upsert(self) -> None:
        branch, line = self.line()
        rows = [self.row(number) for number in self.some(line)] + self.new_rows(2)
        if self.by(f"upsert of {len(rows)} to {branch}", lambda actor: actor.upsert(rows, branch=branch)):
            self.wrote(line, line.rows | {row["id"]: row for row in rows})

    def _delete(self) -> None:
        branch, line = self.line()
        gone = self.some(line)
        if gone and self.by(f"delete of {len(gone)} from {branch}", lambda actor: actor.delete(gone, branch=branch)):
            self.wrote(line, {key: row for key, row in line.rows.items() if key not in gone})

    def _equality(self) -> None:
        """Equality deletes, which only Flink and the like write: by the tests' own writer. They apply to files of their
        own partition and spec, or to all where the spec has no partitions."""
        if self.version < 2 or not self.main.rows:
            return self._delete()
        document, metadata = self.place.head()
        table, spec = self.place.open(), global_spec(metadata)
        gone = self.some(self.main)
        if spec is None or (self.spec and self.chance.random() < 0.7):
            spec = int(document["default-spec-id"])
            found = table.read(columns=["id", "_spec_id"]).read_all().to_pylist()
            there = [row["id"] for row in found if row["_spec_id"] == spec]
            gone = self.chance.sample(sorted(there), min(len(there), 3))
        if not gone:
            return self._delete()
        delete_equal(table, metadata, [self.main.rows[key] for key in gone], self.columns, spec)
        self.note(f"{self.number} equality delete of {len(gone)} with spec {spec}")
        self.traits.add("equality")
        self.wrote(self.main, {key: row for key, row in self.main.rows.items() if key not in gone})
        return None

    def _overwrite(self) -> None:
        rows = self.new_rows(5)
        if self.by("overwrite", lambda actor: actor.overwrite(rows)):
            # Spark's static overwrite, and lakebed's, replace all rows
            self.wrote(self.main, {row["id"]: row for row in rows})

    def _replace(self) -> None:
        part = self.chance.choice(PARTS)
        rows = self.new_rows(3, part)
        if self.by(f"replace part {part}", lambda actor: actor.replace_part(part, rows)):
            kept = {key: row for key, row in self.main.rows.items() if row["part"] != part}
            self.wrote(self.main, kept | {row["id"]: row for row in rows})

    def _stage(self) -> None:
        rows, wap = self.new_rows(3), f"w{self.number}"
        self.by("property write.wap.enabled", lambda actor: actor.alter("property", "write.wap.enabled", "true"))
        if self.by(f"stage {wap}", lambda actor: actor.stage(wap, rows)):
            document, _ = self.place.head()
            (made,) = [s["snapshot-id"] for s in document["snapshots"] if s["summary"].get("wap.id") == wap]
            self.staged[wap] = made, {row["id"]: row for row in rows}

    def _publish(self) -> None:
        if not self.staged:
            return self._stage()
        wap = self.chance.choice(sorted(self.staged))
        if self.by(f"publish {wap}", lambda actor: actor.publish(wap)):
            self.wrote(self.main, self.main.rows | self.staged.pop(wap)[1])
        return None

    def _add_files(self) -> None:
        if self.spec not in ((), ("part",)):
            return self._append()
        rows = self.new_rows(4, self.chance.choice(PARTS))
        folder = self.local() / "data" / f"added{self.number}"
        folder.mkdir(parents=True)
        pq.write_table(table_of(rows, self.columns), folder / "one.parquet")
        if self.by("add_files", lambda actor: actor.add_files(folder)):
            self.wrote(self.main, self.main.rows | {row["id"]: row for row in rows})
        return None

    def local(self) -> Path:
        """The folder of the table."""
        document, _ = self.place.head()
        return Path(document["location"].removeprefix("file://").removeprefix("file:"))

    def _repair(self) -> None:
        """A data file is lost, which only the newest snapshot of main has to do without."""
        if self.branches or self.tags or not self.main.rows:
            return self._append()
        found = self.place.open().read(columns=["id", "_file"]).read_all().to_pylist()
        lost = self.chance.choice(sorted({row["_file"] for row in found}))
        if 2 * len({row["_file"] for row in found}) < 5:  # it refuses to lose half of a table
            return self._append()
        Path(lost.removeprefix("file://").removeprefix("file:")).unlink()
        gone = {row["id"] for row in found if row["_file"] == lost}
        assert self.by(f"repair of {len(gone)}", lambda actor: actor.repair())
        self.wrote(self.main, {key: row for key, row in self.main.rows.items() if key not in gone})
        self.states.clear()
        self.staged.clear()
        self.traits.add("repaired")
        return None

    # ---- upkeep ----

    def _rewrite(self) -> None:
        kinds = ("data-files", "data-files", "sort", "zorder", "position-deletes", "equality-deletes", "manifests")
        what = self.chance.choice(kinds)
        if what == "equality-deletes" and "equality" not in self.traits:
            what = "data-files"
        self.by(f"rewrite {what}", lambda actor: actor.rewrite(what))

    def _expire(self) -> None:
        keep = self.chance.choice((1, 1, 2, 4))
        document, _ = self.place.head()
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in document["snapshots"]}
        kept = {*self.tags.values()}
        for head in (self.main.head, *(line.head for line in self.branches.values())):
            for _ in range(keep):
                if head is None or head not in parents:
                    break
                kept.add(head)
                head = parents[head]
        clean = self.chance.random() < 0.5
        if not self.by(f"expire to {keep}{' clean' * clean}", lambda actor: actor.expire(keep, clean)):
            return
        after, _ = self.place.head()
        assert {snapshot["snapshot-id"] for snapshot in after["snapshots"]} == kept
        self.states = {key: state for key, state in self.states.items() if key in kept}
        self.staged = {wap: one for wap, one in self.staged.items() if one[0] in kept}

    def _sweep(self) -> None:
        """Files that no snapshot knows go; all files are old enough for that."""
        stray = self.local() / "data" / "stray.parquet"
        stray.parent.mkdir(exist_ok=True)
        stray.write_bytes(b"PAR1")
        old = time.time() - 10 * 86_400
        for path in self.local().rglob("*"):
            os.utime(path, (old, old))
        done = self.by("sweep", lambda actor: actor.sweep())
        assert done != "lakebed" or not stray.exists()

    def _statistics(self) -> None:
        """Different values of columns, which all engines count exactly in small tables, and figures of partitions."""
        if not self.main.rows:
            return self._append()
        if self.spec and self.by("partition statistics", lambda actor: actor.partition_stats()):
            document, _ = self.place.head()
            assert document["current-snapshot-id"] in {one["snapshot-id"] for one in document["partition-statistics"]}
        if not self.by("statistics", lambda actor: actor.table_stats()):
            return None
        document, _ = self.place.head()
        names = {}
        for schema in document["schemas"]:
            if schema["schema-id"] == document["current-schema-id"]:
                names = {field["id"]: field["name"] for field in schema["fields"]}
        head = document["current-snapshot-id"]
        (made,) = [one for one in document["statistics"] if one["snapshot-id"] == head]
        counted = {names[b["fields"][0]]: int(b["properties"]["ndv"]) for b in made["blob-metadata"]}
        wanted = {}
        for column in self.columns:
            values = [row.get(column.held, column.default) for row in self.main.rows.values()]
            wanted[column.name] = len({value for value in values if value is not None})
        assert counted == wanted, f"{counted} different values of {wanted}"
        return None

    # ---- refs ----

    def known(self) -> list[int]:
        """Snapshots whose rows the model knows."""
        return sorted(self.states)

    def _tag(self) -> None:
        if not self.known():
            return
        name, snapshot = f"t{self.number}", self.chance.choice(self.known())
        if self.by(f"tag {name}", lambda actor: actor.tag(name, snapshot)):
            self.tags[name] = snapshot

    def _untag(self) -> None:
        if not self.tags:
            return self._tag()
        name = self.chance.choice(sorted(self.tags))
        if self.by(f"untag {name}", lambda actor: actor.untag(name)):
            del self.tags[name]
        return None

    def _branch(self) -> None:
        if not self.known() or len(self.branches) > 1:
            return self._merge()
        name, snapshot = f"b{self.number}", self.chance.choice(self.known())
        if self.by(f"branch {name}", lambda actor: actor.branch(name, snapshot)):
            self.branches[name] = Line(self.states[snapshot][0], snapshot)
        return None

    def _merge(self) -> None:
        """Main goes to a branch where it can, and the branch goes."""
        if not self.branches:
            return self._append()
        name = self.chance.choice(sorted(self.branches))
        line = self.branches[name]
        if self.main.head in self.ancestors(line.head) and self.by(
            f"fast-forward to {name}", lambda actor: actor.fast_forward(name)
        ):
            self.main = replace(line)
        if self.by(f"unbranch {name}", lambda actor: actor.unbranch(name)):
            del self.branches[name]
        return None

    def _rollback(self) -> None:
        past = [one for one in self.ancestors(self.main.head)[1:] if one in self.states]
        if not past:
            return self._append()
        to = self.chance.choice(past)
        if self.by("rollback", lambda actor: actor.rollback(to)):
            self.main = Line(self.states[to][0], to)
        return None

    def ancestors(self, head: int | None) -> list[int]:
        """The snapshots of a branch, from its head."""
        document, _ = self.place.head()
        parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in document.get("snapshots", ())}
        found = []
        while head is not None and head in parents:
            found.append(head)
            head = parents[head]
        return found
