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
from lakebed.kernel.files import Store
from lakebed.verbs.read import run
from lakebed.verbs.stream import Limits, drain
from tests.interop.conftest import PaimonJvm, Pypaimon
from tests.interop.paimon_shape import Row, Shape, spelled

Change = tuple[str, tuple[Any, ...]]
FROM_THE_START = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"}
SQL = {"int": "INT", "bigint": "BIGINT"}
ORPHANS = {"lakebed.expire.what": "orphan-files", "lakebed.expire.orphans.after": "1 h"}
ARROW = {"int": "int32", "bigint": "int64"}


class Actor(Protocol):
    """An engine at work. Rows come with their kinds beside them."""

    name: str

    def write(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> None: ...
    def overwrite(self, rows: Sequence[Row], schema: pa.Schema) -> None: ...
    def compact(self) -> None: ...
    def expire(self, keep: int, changelogs: int | None) -> None: ...
    def tag(self, name: str, snapshot: int) -> None: ...
    def untag(self, name: str) -> None: ...
    def rollback(self, to: int | str) -> None: ...
    def alter(self, change: str, column: str, more: str) -> None: ...
    def branch(self, name: str, tag: str) -> None: ...
    def fast_forward(self, name: str) -> None: ...
    def unbranch(self, name: str) -> None: ...
    def remove_orphans(self) -> None: ...


class Lakebed:
    """lakebed, with a table opened for each step, as another process would."""

    name = "lakebed"

    def __init__(self, shape: Shape, place: Path | Store, branch: str = "main") -> None:
        self._shape, self._place, self._branch = shape, place, branch

    @property
    def table(self) -> lakebed.Table:
        """The table as it is now."""
        return self._open()

    def on(self, store: Store) -> Lakebed:
        """lakebed, on another store of the same table."""
        return Lakebed(self._shape, store, self._branch)

    def on_branch(self, branch: str) -> Lakebed:
        """lakebed, on a branch of the table."""
        return Lakebed(self._shape, self._place, branch)

    def _open(self, options: Mapping[str, str] | None = None) -> lakebed.Table:
        branch = {} if self._branch == "main" else {"branch": self._branch}
        return lakebed.open(self._place, {**branch, **(options or {})})

    def write(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> None:
        data = pa.Table.from_pylist(list(rows), schema=schema)
        if self._shape.keys:
            self.table.write(data.append_column("_row_kind", pa.array(list(kinds))), mode="upsert")
        else:
            self.table.write(data)

    def commit(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema, user: str, identifier: int) -> None:
        """What a job runs that may start again: the same rows under the same user and identifier."""
        writer = self.table.writer(commit_user=user)
        data = pa.Table.from_pylist(list(rows), schema=schema)
        writer.write(data.append_column("_row_kind", pa.array(list(kinds))) if self._shape.keys else data)
        writer.filter_and_commit({identifier: writer.prepare_commit()})

    def overwrite(self, rows: Sequence[Row], schema: pa.Schema) -> None:
        self.table.write(pa.Table.from_pylist(list(rows), schema=schema), mode="overwrite")

    def compact(self) -> None:
        self.rewrite({})

    def rewrite(self, options: Mapping[str, str]) -> None:
        """A rewrite, as of a job beside writers that compact nothing."""
        self.table.rewrite(options={**options, **({"write-only": "false"} if self._shape.write_only else {})})

    def expire(self, keep: int, changelogs: int | None) -> None:
        options: dict[str, object] = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": keep}
        options["lakebed.owed.time-retained"] = "1 ms"  # the newest snapshot of another writer's stream goes, too
        if changelogs is not None:
            options |= {"changelog.num-retained.min": 1, "changelog.num-retained.max": changelogs}
        self.table.expire(options=options)

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
            "move": lambda: lakebed.move_column(column, **({"first": True} if more == "first" else {"after": more})),
            "option": lambda: lakebed.set_option(column, more),
        }
        self.table.alter(made[change]())

    def branch(self, name: str, tag: str) -> None:
        self.table.branch(name, f"tag:{tag}")

    def fast_forward(self, name: str) -> None:
        self.table.fast_forward(name)

    def unbranch(self, name: str) -> None:
        self.table.delete_branch(name)

    def remove_orphans(self) -> None:
        self.table.expire(options={**ORPHANS})

    def orphans(self) -> list[str]:
        """The files that nothing names."""
        return [*self.table.expire(options={**ORPHANS}, dry_run=True).deleted_files]

    def rows(self, schema: pa.Schema, as_of: str | None = None) -> list[tuple[Any, ...]]:
        """The rows that it reads."""
        return plain(self.table.read(as_of=as_of).read_all(), schema)

    def changes(self, after: int, until: int, mode: str, schema: pa.Schema) -> list[Change]:
        """The changes of a range."""
        table = self._open({"incremental-between-scan-mode": mode})
        return with_kinds(table.changes(after=str(after), until=str(until)).read_all(), schema)

    def follow(self, consumer: str, schema: pa.Schema) -> list[Change]:
        """The changes of the next batch of a consumer, which is done with it then."""
        table, found = self._open({**FROM_THE_START, "consumer-id": consumer}), None
        for _, plan in drain(table.stream(), None, Limits(commits=1)):
            if found is not None:
                break
            found = with_kinds(run(plan, 1).read_all(), schema)
        return found or []

    def of_snapshot(self, number: int, schema: pa.Schema) -> list[Change]:
        """What a stream takes first from a snapshot on, or from the changelog that is left of it."""
        table = self._open({"scan.mode": "from-snapshot", "scan.snapshot-id": str(number)})
        batches = (run(plan, 1).read_all() for _, plan in drain(table.stream(), None, Limits(commits=1)))
        return with_kinds(next((rows for rows in batches if rows.num_rows), schema.empty_table()), schema)


class Jvm:
    """The Java bundle."""

    name = "jvm"

    def __init__(self, shape: Shape, path: Path, jvm: PaimonJvm, branch: str = "main") -> None:
        self._shape, self._jvm = shape, jvm
        self._path: Any = path if branch == "main" else f"{path}@branch={branch}"
        self._commits = 0

    def on_branch(self, branch: str) -> Jvm:
        """The bundle, on a branch of the table."""
        return Jvm(self._shape, self._path, self._jvm, branch)

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

    def expire(self, keep: int, changelogs: int | None) -> None:
        self._jvm.tell("expire", self._path, keep, *([] if changelogs is None else [changelogs]))

    def tag(self, name: str, snapshot: int) -> None:
        self._jvm.tell("tag", self._path, name, snapshot)

    def untag(self, name: str) -> None:
        self._jvm.tell("untag", self._path, name)

    def rollback(self, to: int | str) -> None:
        self._jvm.tell("rollback", self._path, to)

    def alter(self, change: str, column: str, more: str) -> None:
        self._jvm.tell("alter", self._path, change, column, SQL.get(more, more))

    def branch(self, name: str, tag: str) -> None:
        self._jvm.tell("branch", self._path, name, tag)

    def fast_forward(self, name: str) -> None:
        self._jvm.tell("forward", self._path, name)

    def unbranch(self, name: str) -> None:
        self._jvm.tell("unbranch", self._path, name)

    def remove_orphans(self) -> None:
        self._jvm.tell("orphans", self._path, "remove")

    def orphans(self) -> list[str]:
        """The files that nothing names."""
        return [line["orphan"] for line in self._jvm.tell("orphans", self._path, "list")]

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

    def of_snapshot(self, number: int, schema: pa.Schema) -> list[Change]:
        """What a stream takes from one snapshot, or from the changelog that is left of it."""
        return self._kinds(self._jvm.delta(self._path, number), schema)

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

    def __init__(self, shape: Shape, path: Path | None, pypaimon: Pypaimon) -> None:
        self._shape, self._path, self._pypaimon = shape, path, pypaimon

    def write(self, rows: Sequence[Row], kinds: Sequence[str], schema: pa.Schema) -> None:
        if self._path is None or not self._shape.pypaimon_writes or set(kinds) != {"+I"}:
            raise UnsupportedError("such a write", table=str(self._path), todo="Another engine does it")
        self._pypaimon.write(self._path, "native", pa.Table.from_pylist(list(rows), schema=schema))

    def rows(self, schema: pa.Schema) -> list[tuple[Any, ...]] | None:
        """The rows that it reads, None on a branch."""
        if self._path is None:
            return None
        return plain(self._pypaimon.read(self._path, "native").select(schema.names), schema)

    def nowhere(self) -> Python:
        """An engine that can do nothing: it knows no branches."""
        return Python(self._shape, None, self._pypaimon)

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
