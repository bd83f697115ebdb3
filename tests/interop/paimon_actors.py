"""Who takes turns in a life of a Paimon table: lakebed, Paimon's Java bundle, pypaimon.

An engine that cannot do a step raises UnsupportedError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.interop.conftest import PaimonJvm, Pypaimon
from tests.interop.paimon_shape import Row, Shape, spelled

Change = tuple[str, tuple[Any, ...]]
FROM_THE_START = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
SQL = {"int": "INT", "bigint": "BIGINT"}
ARROW = {"int": "int32", "bigint": "int64"}


class Actor(Protocol):
    """An engine at work. Rows come with their kinds beside them."""

    name: str

    def write(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> None: ...
    def overwrite(self, rows: Sequence[Row], schema: pa.Schema) -> None: ...
    def compact(self) -> None: ...
    def expire(self, keep: int) -> None: ...
    def tag(self, name: str, snapshot: int) -> None: ...
    def untag(self, name: str) -> None: ...
    def rollback(self, to: int | str) -> None: ...
    def alter(self, change: str, column: str, more: str) -> None: ...


class Lakebed:
    """lakebed, with a table opened for each step, as another process would."""

    name = "lakebed"

    def __init__(self, shape: Shape, path: Path) -> None:
        self._shape, self._path = shape, path

    @property
    def table(self) -> lakebed.Table:
        """The table as it is now."""
        return lakebed.open(self._path)

    def write(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> None:
        data = pa.Table.from_pylist(list(rows), schema=schema)
        if self._shape.keys:
            self.table.write(data.append_column("_row_kind", pa.array(list(kinds))), mode="upsert")
        else:
            self.table.write(data)

    def overwrite(self, rows: Sequence[Row], schema: pa.Schema) -> None:
        self.table.write(pa.Table.from_pylist(list(rows), schema=schema), mode="overwrite")

    def compact(self) -> None:
        self.table.rewrite(options={"write-only": "false"} if self._shape.write_only else {})

    def expire(self, keep: int) -> None:
        owed = {"lakebed.owed.time-retained": "1 ms"}  # the newest snapshot of another writer's stream goes, too
        self.table.expire(options={"snapshot.num-retained.min": 1, "snapshot.num-retained.max": keep, **owed})

    def tag(self, name: str, snapshot: int) -> None:
        self.table.tag(name, str(snapshot))

    def untag(self, name: str) -> None:
        self.table.delete_tag(name)

    def rollback(self, to: int | str) -> None:
        self.table.rollback(str(to) if isinstance(to, int) else f"tag:{to}")

    def alter(self, change: str, column: str, more: str) -> None:
        made: Any = {
            "add": lambda: lakebed.add_column(column, ARROW[more]),
            "retype": lambda: lakebed.widen(column, ARROW[more]),
            "rename": lambda: lakebed.rename_column(column, more),
            "drop": lambda: lakebed.drop_column(column),
        }
        self.table.alter(made[change]())

    def rows(self, schema: pa.Schema, as_of: str | None = None) -> list[tuple[Any, ...]]:
        """The rows that it reads."""
        return plain(self.table.read(as_of=as_of).read_all(), schema)

    def changes(self, after: int, until: int, mode: str, schema: pa.Schema) -> list[Change]:
        """The changes of a range."""
        table = lakebed.open(self._path, {"incremental-between-scan-mode": mode})
        return with_kinds(table.changes(after=str(after), until=str(until)).read_all(), schema)

    def follow(self, consumer: str, schema: pa.Schema) -> list[Change]:
        """The changes of the next batch of a consumer, which is done with it then."""
        table, found = lakebed.open(self._path, {**FROM_THE_START, "consumer-id": consumer}), None
        for _, plan in drain(table.stream(), None, Limits(commits=1)):
            if found is not None:
                break
            found = with_kinds(run(plan, 1).read_all(), schema)
        return found or []


class Jvm:
    """The Java bundle."""

    name = "jvm"

    def __init__(self, shape: Shape, path: Path, jvm: PaimonJvm) -> None:
        self._shape, self._path, self._jvm = shape, path, jvm
        self._commits = 0

    def write(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> None:
        self._commits += 1
        self._jvm.write(self._path, self._texts(rows, kinds, schema), self._commits)

    def overwrite(self, rows: Sequence[Row], schema: pa.Schema) -> None:
        if self._shape.mode not in ("fixed", "append", "append-fixed"):
            raise UnsupportedError("an overwrite", table=str(self._path), todo="Another engine does it")
        self._jvm.overwrite(self._path, self._texts(rows, ["+I"] * len(rows), schema))

    def compact(self) -> None:
        self._commits += 1
        if self._shape.mode == "postponed":
            self._jvm.postpone_compact(self._path, 2, self._commits)
        else:
            self._jvm.tell("compact", self._path, self._commits)

    def expire(self, keep: int) -> None:
        self._jvm.tell("expire", self._path, keep)

    def tag(self, name: str, snapshot: int) -> None:
        self._jvm.tell("tag", self._path, name, snapshot)

    def untag(self, name: str) -> None:
        self._jvm.tell("untag", self._path, name)

    def rollback(self, to: int | str) -> None:
        self._jvm.tell("rollback", self._path, to)

    def alter(self, change: str, column: str, more: str) -> None:
        self._jvm.tell("alter", self._path, change, column, SQL.get(more, more))

    def rows(self, schema: pa.Schema, as_of: str | None = None) -> list[tuple[Any, ...]]:
        """The rows that it reads; those of now lie in the buckets that it would put them into."""
        if as_of is not None:
            return _sorted([values(line["row"], schema) for line in self._jvm.tell("at", self._path, as_of)])
        lines, _ = self._jvm.dump(self._path)
        assert all(line["bucket"] == line.get("expected", line["bucket"]) for line in lines)
        return _sorted([values(line["row"], schema) for line in lines])

    def changes(self, after: int, until: int, mode: str, schema: pa.Schema) -> list[Change]:
        """The changes of a range."""
        return self._kinds(self._jvm.changes(self._path, after, until, mode), schema)

    def follow(self, consumer: str, schema: pa.Schema) -> list[Change]:
        """The changes of the next plan of a consumer, which is done with it then."""
        return self._kinds(self._jvm.follow(self._path, consumer, 1), schema)

    def _kinds(self, lines: list[dict[str, Any]], schema: pa.Schema) -> list[Change]:
        return [(line["kind"], values(line["row"], schema)) for line in lines]

    def _texts(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> list[list[Any]]:
        return [
            [kind, *(str(row[n]).lower() if row[n] in (True, False) and n == "ok" else row[n] for n in schema.names)]
            for kind, row in zip(kinds, rows, strict=True)
        ]


class Python:
    """pypaimon, by its native path. It inserts, and reads the newest rows."""

    name = "pypaimon"

    def __init__(self, shape: Shape, path: Path, pypaimon: Pypaimon) -> None:
        self._shape, self._path, self._pypaimon = shape, path, pypaimon

    def write(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> None:
        if not self._shape.pypaimon_writes or set(kinds) != {"+I"}:
            raise UnsupportedError("such a write", table=str(self._path), todo="Another engine does it")
        self._pypaimon.write(self._path, "native", pa.Table.from_pylist(list(rows), schema=schema))

    def rows(self, schema: pa.Schema) -> list[tuple[Any, ...]]:
        """The rows that it reads."""
        return plain(self._pypaimon.read(self._path, "native").select(schema.names), schema)

    def __getattr__(self, name: str) -> Any:
        def cannot(*_: Any) -> None:
            raise UnsupportedError(name, table=str(self._path), todo="Another engine does it")

        return cannot


def plain(data: pa.Table, schema: pa.Schema) -> list[tuple[Any, ...]]:
    """Rows as the Java program spells them, in one order."""
    return _sorted([values(row, schema) for row in data.select(schema.names).to_pylist()])


def with_kinds(data: pa.Table, schema: pa.Schema) -> list[Change]:
    """Changes as the Java program spells them."""
    return [(row["_row_kind"], values(row, schema)) for row in data.to_pylist()]


def values(row: Mapping[str, Any], schema: pa.Schema) -> tuple[Any, ...]:
    """The values of a row in the order of the columns, as the Java program spells them."""
    return tuple(spelled(row[column.name], column.type) for column in schema)


def _sorted(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)
