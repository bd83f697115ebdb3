"""The steps of a Paimon table's life, each by an engine that chance picks, and what they make of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

import lakebed
from tests.interop.lives import done_by
from tests.interop.paimon_actors import Actor
from tests.interop.paimon_looks import Looks
from tests.interop.paimon_shape import Row
from tests.interop.paimon_state import Column, Rows

KEYS = 20
OPTIONS = (
    ("num-sorted-run.compaction-trigger", "2"), ("num-sorted-run.compaction-trigger", "5"), ("page-size", "8 kb"),
    ("target-file-size", "1 kb"), ("target-file-size", "128 mb"), ("file.format", "orc"), ("file.format", "parquet"),
    ("file.format", "avro"), ("metadata.stats-mode", "full"), ("metadata.stats-mode", "none"),
    ("manifest.merge-min-count", "2"), ("manifest.target-file-size", "1 kb"), ("file.compression", "none"),
    ("write-buffer-size", "1 mb"), ("metadata.stats-dense-store", "false"), ("data-file.thin-mode", "true"),
)  # fmt: skip
"""Options that may change in a table's life, and no row with them."""


class Steps(Looks):
    """What is done to a table."""

    fresh: int
    who: str
    log: Any

    def step(self, step: Callable[[], None]) -> None:
        self.number += 1
        self.compacted = False
        step()
        self.check()

    def by(self, what: str, do: Callable[[Actor], None]) -> str:
        """The name of the engine that did it; empty where none can."""
        actors: tuple[Actor, ...] = self.lakebed, self.jvm, self.python
        return done_by(actors, self.who, self.chance, what, do, self.number, self.refused, self.note)

    def note(self, line: str) -> None:
        if self.log:
            print(line, file=self.log, flush=True)

    # ---- writes ----

    def _upsert(self) -> None:
        self._write("upsert", *self.upserts()) if self.shape.keys else self._insert()

    def upserts(self) -> tuple[list[Row], list[str]]:
        """Rows of keys that may be there, with their kinds. Some are late where a column orders them."""
        known = [row["id"] for row in self.state.rows.values()]
        ids = self.chance.sample(sorted({*known, *range(KEYS)}), self.chance.randrange(3, 10))
        rows = [self.row(number) for number in ids]
        if self.shape.sequence and self.number > 2:
            held = {key[-1] for key in self.state.rows}
            late = [row for row in rows if row["id"] in held and self.chance.random() < 0.4]
            for row in late:
                row["ts"] -= 25
        return rows, ["+I" if self.chance.random() < 0.7 else "+U" for _ in rows]

    def _insert(self) -> None:
        self._write("insert", *self.inserts())

    def inserts(self) -> tuple[list[Row], list[str]]:
        """Rows of new keys, with their kinds."""
        count = self.chance.randrange(3, 9) if self.number > 1 else 14
        first = 0 if self.number == 1 else KEYS + self.fresh
        self.fresh += count
        return [self.row(number) for number in range(first, first + count)], ["+I"] * count

    def _delete(self) -> None:
        if not self.shape.deletes or not self.state.rows:
            return self._insert()
        gone = self.chance.sample(sorted(self.state.rows), min(len(self.state.rows), self.chance.randrange(1, 6)))
        rows = [self._named(self.state.rows[key]) | {"ts": self.number * 10} for key in gone]
        return self._write("delete", rows, ["-D"] * len(rows))

    def row(self, number: int) -> Row:
        return self.shape.row(self.chance, number, self.number * 10 + self.chance.randrange(3), self.state.schema)

    def _named(self, row: Row) -> Row:
        return {column.name: row.get(column.held) for column in self.state.columns}

    def _write(self, what: str, rows: list[Row], kinds: list[str]) -> None:
        name = self.by(f"{what} of {len(rows)}", lambda actor: actor.write(rows, kinds, self.state.schema))
        if not name:
            return
        self.wrote(rows, kinds)
        if name == "pypaimon" and (self.shape.waits or self.shape.told_by_compaction):
            self._compact()

    def wrote(self, rows: Sequence[Row], kinds: Sequence[str]) -> None:
        """These rows are in the table."""
        after = dict(self.state.rows)
        for row, kind in zip(rows, kinds, strict=True):
            held = {column.held: row[column.name] for column in self.state.columns}
            key = self.shape.key(held)
            if kind == "-D":
                after.pop(key, None)
            else:
                after[key] = self.shape.merged(after.get(key), held)
        waits = self.shape.waits and (self.shape.write_only or self.shape.mode == "postponed")
        self.now(after, self.state.seen if waits else after)

    def _overwrite(self) -> None:
        rows = [self.row(number) for number in range(0, 2 * self.chance.randrange(1, 5), 2)]
        if not self.shape.keys:
            rows = [row | {"id": row["id"] + 1000 * self.number} for row in rows]
        if self.shape.mode in ("crossing", "postponed"):
            return self._insert()
        if not self.by(f"overwrite with {len(rows)}", lambda actor: actor.overwrite(rows, self.state.schema)):
            return None
        parts = {row["part"] for row in rows}
        written = {self.shape.key(row): row for row in [self._held(row) for row in rows]}
        left, seen = (
            {key: row for key, row in some.items() if row["part"] not in parts}
            for some in (self.state.rows, self.state.seen)
        )
        after = left | written
        self.told = {key: row for key, row in self.told.items() if row["part"] not in parts}
        self.now(after, seen if self.shape.waits and self.shape.write_only else after)
        return self.deaf()

    def _held(self, row: Row) -> Row:
        return {column.held: row[column.name] for column in self.state.columns}

    def _compact(self) -> None:
        if self.by("compact", lambda actor: actor.compact()):
            self.whole()

    def whole(self) -> None:
        """All buckets are compacted."""
        self.compacted = True
        self.now(self.state.rows, self.state.rows)

    def now(self, rows: Rows, seen: Rows) -> None:
        self.state = replace(self.state, rows=rows, seen=seen)
        if not self.shape.told_by_compaction or not self.shape.write_only or self.compacted:
            self.told = rows

    # ---- upkeep ----

    def _expire(self) -> None:
        keep = self.chance.randrange(1, 6)
        changelogs = self.chance.choice((None, keep + 3)) if self.shape.producer != "none" else None
        if self.by(f"expire but {keep}, {changelogs}", lambda actor: actor.expire(keep, changelogs)):
            self.expired(keep)

    def expired(self, keep: int) -> None:
        """So many snapshots are left."""
        left = self.ids()
        assert len(left) <= keep, f"{left} are left, for {lakebed.paimon.consumers(self.lakebed.table)}"
        self.states = {number: state for number, state in self.states.items() if number in left}

    def _tag(self) -> None:
        number = self.chance.choice(sorted(self.states))
        name = f"t{self.number}"
        if self.by(f"tag {number}", lambda actor: actor.tag(name, number)):
            self.tags[name], self.tagged[name] = self.states[number], number

    def _untag(self) -> None:
        if self.tags:
            name = self.chance.choice(sorted(self.tags))
            if self.by(f"untag {name}", lambda actor: actor.untag(name)):
                del self.tags[name], self.tagged[name]

    def _rollback(self) -> None:
        number = self.chance.choice(sorted(self.states)[-4:])
        if self.by(f"rollback to {number}", lambda actor: actor.rollback(number)):
            self.rolled_back(number)

    def rolled_back(self, number: int) -> None:
        """The table is at an earlier snapshot. Its columns are those of now."""
        then = self.states[number]
        self.states = {one: state for one, state in self.states.items() if one <= number}
        self.told_at = {one: told for one, told in self.told_at.items() if one <= number}
        self.tagged = {name: one for name, one in self.tagged.items() if one <= number}
        self.tags = {name: self.tags[name] for name in self.tagged}
        self.state = replace(self.state, rows=then.rows, seen=then.seen)
        self._buckets(then.buckets)
        self.told = self.told_at[number]
        self.deaf()

    def _alter(self) -> None:
        change, name, more, columns = self.alteration()
        if self.by(f"{change} {name} {more}", lambda actor: actor.alter(change, name, more)):
            self.alter_to(columns)

    def alter_to(self, columns: tuple[Column, ...]) -> None:
        """The table has these columns."""
        self.state = replace(self.state, columns=columns)

    def alteration(self) -> tuple[str, str, str, tuple[Column, ...]]:
        """A change of the columns or options, what it is given, and the columns afterwards."""
        columns = list(self.state.columns)
        own = [column for column in columns if column.held.startswith("c")]
        narrow = [column for column in columns if column.type == pa.int32() and column.held != "ts"]
        choices = ["add", "option", "move", *(["rename", "drop"] if own else []), *(["retype"] if narrow else [])]
        change = self.chance.choice(choices)
        name, more = f"c{self.number}", "int"
        match change:
            case "add":
                dropped = [f"c{number}" for number in range(self.number)]
                free = [name for name in dropped if name not in self.state.schema.names]
                name = self.chance.choice([name, *free[-1:]])  # a name that another column had
                columns.append(Column(name, f"c{self.number}.{self.path.name}", pa.int32()))
            case "retype":
                column = self.chance.choice(narrow)
                columns[columns.index(column)] = replace(column, type=pa.int64())
                name, more = column.name, "bigint"
            case "move":
                column = columns.pop(self.chance.randrange(len(columns)))
                at = self.chance.randrange(len(columns) + 1)
                columns.insert(at, column)
                name, more = column.name, columns[at - 1].name if at else "first"
            case "option":
                name, more = self.chance.choice(OPTIONS)
            case _:
                column = self.chance.choice(own)
                at, name = columns.index(column), column.name
                more = f"r{self.number}" if change == "rename" else ""
                columns[at : at + 1] = [replace(column, name=more)] if change == "rename" else []
        return change, name, more, tuple(columns)

    def _rescale(self) -> None:
        """Other numbers of buckets, or rows in another order; lakebed has both as a rewrite."""
        if self.shape.mode == "fixed":
            count = self.chance.choice([number for number in (1, 2, 3, 4) if number != self.state.buckets])
            self.note(f"{self.number} rescale to {count}")
            self._buckets(count)
            self.lakebed.rewrite({"bucket": str(count)})
            return self.whole()
        if self.shape.mode != "append":
            return self._compact()
        strategy = self.chance.choice(("order", "zorder", "hilbert"))
        self.note(f"{self.number} {strategy}")
        return self.lakebed.rewrite({"order_strategy": strategy, "order_by": "id,x"})

    def _buckets(self, count: int) -> None:
        """The table's option says how many buckets its partitions have."""
        if count != self.state.buckets:
            self.lakebed.alter("option", "bucket", str(count))
            self.state, self.rescaled = replace(self.state, buckets=count), True
