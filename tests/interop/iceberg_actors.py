"""The engines that take turns on an Iceberg table: what each is told for every step of its life."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import EqualTo, In
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DecimalType, DoubleType, FloatType, IntegerType, LongType, StringType

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.table import IcebergTable
from tests.interop.conftest import HERE, Peer, named
from tests.interop.iceberg_state import Column, Row, Shape, read_rows, table_of

FUTURE = "2100-01-01"

SORTED = {"sort": {"sort-order": "part, id desc"}, "zorder": {"sort-order": "zorder(id, part)"}}
"""The options of rewrites that sort."""


@dataclass
class Place:
    """A table, by the names that each engine has for it. `addresses` are those of the catalogs."""

    shape: Shape
    name: str
    folder: Path
    addresses: dict[str, str]
    columns: tuple[Column, ...] = ()
    version: int = 0
    now: tuple[dict[str, Any], str] = ({}, "")
    """What `head` gave after the last step."""

    @property
    def location(self) -> str:
        """What `lakebed.open` takes."""
        catalog = self.shape.catalog
        return str(self.folder / "db" / self.name) if catalog == "path" else f"{catalog}:db.{self.name}"

    @property
    def catalog(self) -> dict[str, str]:
        """Properties of the catalog, for pyiceberg."""
        kind = self.shape.catalog
        if kind == "path":
            return {}
        return {"type": kind, "uri": self.addresses[kind], "warehouse": f"file://{self.folder}/{kind}"}

    def open(self, **options: str) -> IcebergTable:
        given = {f"lakebed.catalog.{key}": value for key, value in self.catalog.items()}
        table = lakebed.open(self.location, {**given, **{key.replace("_", "."): v for key, v in options.items()}})
        assert isinstance(table, IcebergTable)
        return table

    def head(self) -> tuple[dict[str, Any], str]:
        """The metadata document, and the location of its file."""
        loaded = self.open().operations.load()
        return json.loads(
            Path(loaded.location.removeprefix("file://").removeprefix("file:")).read_text()
        ), loaded.location


class Actor:
    """What an engine can do. A step that one cannot do is an UnsupportedError."""

    name = ""

    def __init__(self, place: Place) -> None:
        self.place = place

    def __getattr__(self, step: str) -> Any:
        if step.startswith("_"):
            raise AttributeError(step)
        raise UnsupportedError(f"{self.name} has no {step}")


class Lakebed(Actor):
    """lakebed itself."""

    name = "lakebed"

    def create(self) -> None:
        place = self.place
        given = {f"lakebed.catalog.{key}": value for key, value in place.catalog.items()}
        schema = table_of([], place.columns).schema
        lakebed.create(
            place.location, "iceberg", schema, ["id"], list(place.shape.spec), {**given, **place.shape.properties}
        )

    def append(self, rows: Sequence[Row], branch: str = "main") -> None:
        self.place.open(branch=branch).write(table_of(rows, self.place.columns))

    def upsert(self, rows: Sequence[Row], branch: str = "main") -> None:
        table = self.place.open(branch=branch)
        table.write(table_of(rows, self.place.columns), "upsert", {"upsert.keys": "id"})

    def delete(self, ids: Sequence[int], branch: str = "main") -> None:
        keys = pa.table({"id": ids}, schema=pa.schema([pa.field("id", pa.int64(), False)]))
        self.place.open(branch=branch).write(keys, "delete", {"upsert.keys": "id"})

    def overwrite(self, rows: Sequence[Row]) -> None:
        self.place.open().write(table_of(rows, self.place.columns), "overwrite", {"overwrite-mode": "static"})

    def replace_part(self, part: str, rows: Sequence[Row]) -> None:
        self.place.open().write(
            table_of(rows, self.place.columns), "overwrite", {"overwrite-filter": f"part = '{part}'"}
        )

    def rewrite(self, what: str) -> None:
        options = {"rewrite-all": "true", **SORTED.get(what, {})}
        if what not in ("data-files", *SORTED):
            options = {"lakebed.rewrite.what": what}
        self.place.open().rewrite(options=options)

    def expire(self, keep: int, clean: bool) -> None:
        self.place.open().expire(options={"older_than": FUTURE, "retain_last": keep, "clean-expired-metadata": clean})

    def table_stats(self) -> None:
        self.place.open().compute_table_stats()

    def partition_stats(self) -> None:
        self.place.open().compute_partition_stats()

    def sweep(self) -> None:
        self.place.open().expire(options={"expire-snapshots": False, "remove-orphan-files": True})

    def alter(self, *change: Any) -> None:
        made = {
            "add": lambda column: lakebed.add_column(column.name, column.arrow, default=column.default),
            "drop": lakebed.drop_column, "rename": lakebed.rename_column,
            "widen": lambda column, to: lakebed.widen(column.name, to.replace("bigint", "long")),
            "partition": lakebed.add_partition_field, "unpartition": lakebed.drop_partition_field,
            "sort": lakebed.set_sort_order,
            "move": lambda name, after: lakebed.move_column(name, after=after, first=not after),
            "property": lakebed.set_option,
            "upgrade": lambda version: lakebed.set_option("format-version", version),
        }  # fmt: skip
        verb, *words = change
        self.place.open().alter(made[verb](*words))

    def tag(self, name: str, snapshot: int) -> None:
        self.place.open().tag(name, snapshot)

    def untag(self, name: str) -> None:
        self.place.open().delete_tag(name)

    def branch(self, name: str, snapshot: int) -> None:
        self.place.open().branch(name, at=snapshot)

    def unbranch(self, name: str) -> None:
        self.place.open().delete_branch(name)

    def fast_forward(self, name: str) -> None:
        self.place.open().fast_forward(name)

    def stage(self, wap: str, rows: Sequence[Row]) -> None:
        self.place.open().write(table_of(rows, self.place.columns), options={"wap.id": wap})

    def publish(self, wap: str) -> None:
        self.place.open().publish(wap)

    def rollback(self, snapshot: int) -> None:
        self.place.open().rollback(snapshot)

    def add_files(self, folder: Path) -> None:
        self.place.open().add_files([str(folder)])

    def migrate(self, folder: Path) -> None:
        given = {f"lakebed.catalog.{key}": value for key, value in self.place.catalog.items()}
        lakebed.migrate(folder, self.place.location if given else None, options=given)

    def repair(self) -> None:
        self.place.open().repair()

    def read(self, columns: Sequence[Column], snapshot: int | None = None, branch: str = "main") -> list[Any]:
        found = self.place.open(branch=branch).read(columns=[c.name for c in columns], as_of=snapshot).read_all()
        return read_rows(found, columns)


class Pyiceberg(Actor):
    """pyiceberg, which does not write tables by path, nor format version 3."""

    name = "pyiceberg"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._catalog: Catalog | None = None

    def _table(self) -> Any:
        if self.place.shape.catalog == "path" or self.place.version > 2:
            raise UnsupportedError("pyiceberg does not write it")
        if self._catalog is None:
            self._catalog = load_catalog(self.place.shape.catalog, **self.place.catalog)
        return self._catalog.load_table(("db", self.place.name))

    def append(self, rows: Sequence[Row], branch: str = "main") -> None:
        self._plain().append(table_of(rows, self.place.columns), branch=branch)

    def _plain(self) -> Any:
        if self.place.shape.file_format != "parquet":
            raise UnsupportedError("pyiceberg writes Parquet alone")
        table = self._table()
        if table.sort_order().fields:
            raise UnsupportedError("pyiceberg does not sort")
        if any(not isinstance(one.transform, IdentityTransform) for one in table.spec().fields):
            raise UnsupportedError("pyiceberg needs a package of its own for transforms")
        return table

    def upsert(self, rows: Sequence[Row], branch: str = "main") -> None:
        self._plain().upsert(table_of(rows, self.place.columns), join_cols=["id"], branch=branch)

    def delete(self, ids: Sequence[int], branch: str = "main") -> None:
        self._plain().delete(In("id", set(ids)), branch=branch)

    def overwrite(self, rows: Sequence[Row]) -> None:
        self._plain().overwrite(table_of(rows, self.place.columns))

    def replace_part(self, part: str, rows: Sequence[Row]) -> None:
        self._plain().overwrite(table_of(rows, self.place.columns), EqualTo("part", part))

    def expire(self, keep: int, clean: bool) -> None:
        if keep != 1 or clean:
            raise UnsupportedError("pyiceberg counts no snapshots, and cleans no metadata")
        self._table().maintenance.expire_snapshots().older_than(datetime.datetime(2100, 1, 1)).commit()

    def alter(self, *change: Any) -> None:
        verb, *words = change
        table = self._table()
        if verb == "property":
            with table.transaction() as transaction:
                transaction.set_properties({words[0]: words[1]})
            return
        if verb not in ("add", "drop", "rename", "widen", "move") or (verb == "add" and words[0].default is not None):
            raise UnsupportedError(f"pyiceberg is not asked to {verb}")
        with table.update_schema(allow_incompatible_changes=False) as update:
            if verb == "add":
                update.add_column(words[0].name, TYPES[words[0].type])
            elif verb == "drop":
                update.delete_column(words[0])
            elif verb == "rename":
                update.rename_column(*words)
            elif verb == "move":
                update.move_after(*words) if words[1] else update.move_first(words[0])
            else:
                update.update_column(words[0].name, TYPES[words[1]])

    def tag(self, name: str, snapshot: int) -> None:
        self._table().manage_snapshots().create_tag(snapshot, name).commit()

    def untag(self, name: str) -> None:
        self._table().manage_snapshots().remove_tag(name).commit()

    def branch(self, name: str, snapshot: int) -> None:
        self._table().manage_snapshots().create_branch(snapshot, name).commit()

    def unbranch(self, name: str) -> None:
        self._table().manage_snapshots().remove_branch(name).commit()

    def rollback(self, snapshot: int) -> None:
        self._table().manage_snapshots().rollback_to_snapshot(snapshot).commit()

    def add_files(self, folder: Path) -> None:
        self._table().add_files([f"file://{path}" for path in folder.glob("*.parquet")])

    def read(self, columns: Sequence[Column], snapshot: int | None = None, branch: str = "main") -> list[Any]:
        if branch != "main":
            raise UnsupportedError("pyiceberg reads a branch with the columns of its last commit")
        table = StaticTable.from_metadata(self.place.now[1])
        found = table.scan(selected_fields=tuple(c.name for c in columns), snapshot_id=snapshot).to_arrow()
        return read_rows(found, columns)


TYPES = {
    "bigint": LongType(), "int": IntegerType(), "string": StringType(), "date": DateType(), "float": FloatType(),
    "double": DoubleType(), "decimal(9, 2)": DecimalType(9, 2), "decimal(15, 2)": DecimalType(15, 2),
}  # fmt: skip


class Duck(Actor):
    """DuckDB, which only reads."""

    name = "duckdb"

    def __init__(self, place: Place, peer: Peer, folder: Path) -> None:
        super().__init__(place)
        self._peer, self._file = peer, folder / "duck.arrow"

    def read(self, columns: Sequence[Column], snapshot: int | None = None, branch: str = "main") -> list[Any]:
        if snapshot is not None or branch != "main":
            raise UnsupportedError("DuckDB is asked for the newest rows of main alone")
        request = {"name": "", "metadata": self.place.now[1], "to": str(self._file)}
        *_, line = self._peer.ask(json.dumps(request), end="ANSWER ")
        error = json.loads(line)["error"]
        assert not error, error
        with pa.OSFile(str(self._file)) as source:
            return read_rows(pa.ipc.open_stream(source).read_all(), columns)


def duck_peer(folder: Path) -> Peer:
    """A process of DuckDB."""
    return Peer([named("LAKEBED_INTEROP_PYTHON"), str(HERE / "duckdb_peer.py")], folder)
