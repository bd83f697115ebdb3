"""The whole life of an Iceberg table against a list of rows: writes of every mode, deletes of every kind, schemas and
partition specs that change, upgrades, rewrites of data, position deletes and manifests, with writers in between,
expiry. Every snapshot that is left, the changes between any two, row ids over rewrites."""

from __future__ import annotations

import datetime
import itertools
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, TimestampType

from lakebed.errors import CommitConflictError
from lakebed.formats.iceberg.codec.metadata import metadata_to_json
from lakebed.formats.iceberg.codec.schema import arrow_schema
from lakebed.formats.iceberg.rewrite.run import IcebergRewrite
from lakebed.formats.iceberg.snapshot import schema_at
from lakebed.kernel.engine import LocalEngine
from lakebed.model.rowkind import ROW_KIND_COLUMN
from tests.tables.iceberg.evolving import evolve
from tests.tables.iceberg.lake import Lake

Row = dict[str, Any]
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "part", StringType()),
    NestedField(3, "day", DateType()),
    NestedField(4, "at", TimestampType()),
    NestedField(5, "number", IntegerType()),
    identifier_field_ids=[1],
)
SPECS = (
    ((2, "identity"),), ((1, "bucket[3]"),), ((2, "truncate[1]"), (3, "month")), ((4, "day"),), ((4, "hour"),),
    ((5, "truncate[10]"),), ((3, "year"), (5, "identity")), ((2, "void"), (2, "bucket[2]")), ((5, "bucket[2]"),),
)  # fmt: skip
PARTS = (None, "", "a", "b", "éé", "a/b", "a%2F =", "\U0010ffff")


class Life:
    """A table and the rows it shall hold."""

    def __init__(self, folder: Path, chance: random.Random, version: int) -> None:
        self.chance, self.version, self.fields = chance, version, list(SCHEMA.fields)
        self.lake = Lake(folder, SCHEMA, version=version)
        self.rows: list[Row] = []
        self.moments: dict[int, list[Row]] = {}

    def step(self) -> None:
        writes: list[Callable[[], None]] = [self.append, self.overwrite]
        if self.version > 1:
            writes += [self.append, self.upsert, self.changes, self.overwrite_where, self.positions, self.equal]
        others = [self.evolve, self.respec, self.upgrade, self.rewrite, self.rewrite, self.upkeep, self.expire]
        self.chance.choice(self.chance.choice([writes, writes, others]))()
        self.remember()

    def remember(self) -> None:
        head = self.lake.table.table_metadata.head()
        assert bag(self.lake.table.read().read_all()) == counted(self.rows)
        if head is not None:
            self.moments.setdefault(head.snapshot_id, [dict(row) for row in self.rows])

    # ---- writes ------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        rows = self.some_rows(6)
        self.write(rows, "append")
        self.rows += rows

    def upsert(self) -> None:
        rows, mode = self.some_rows(4), self.chance.choice(["upsert", "delete"])
        self.write(rows, mode)
        self.by_key(rows, ["+I" if mode == "upsert" else "-D"] * len(rows))

    def changes(self) -> None:
        rows = self.some_rows(5)
        kinds = [self.chance.choice(["+I", "-U", "+U", "-D"]) for _ in rows]
        self.write(rows, "append", kinds)
        self.by_key(rows, kinds)

    def by_key(self, rows: list[Row], kinds: list[str]) -> None:
        last = {row["id"]: (row, kind) for row, kind in zip(rows, kinds, strict=True)}
        added = [row for row, kind in last.values() if kind in ("+I", "+U")]
        self.rows = [row for row in self.rows if row["id"] not in last] + added

    def overwrite(self) -> None:
        """All of an unpartitioned table; dynamic partitions are another test's."""
        rows = self.some_rows(3)
        self.lake.table.write(self.data(rows), "overwrite", {"overwrite-filter": "true"})
        self.rows = rows

    def overwrite_where(self) -> None:
        number = self.chance.randrange(13)
        self.lake.table.write(self.data([]), "overwrite", {"overwrite-filter": f"id = {number}"})
        self.rows = [row for row in self.rows if row["id"] != number]

    def positions(self) -> None:
        tasks = self.lake.tasks
        if not tasks:
            return
        found = self.lake.table.read([*self.names, "_file", "_pos"]).read_all().to_pylist()
        some = self.chance.sample(found, min(len(found), self.chance.randrange(1, 4)))
        gone: dict[str, list[int]] = {}
        for row in some:
            gone.setdefault(row.pop("_file"), []).append(row.pop("_pos"))
            self.rows.remove(row)
        if gone:
            self.lake.delete_positions(gone, self.chance.choice(["file", "partition"]))

    def equal(self) -> None:
        """By one or two columns, nulls too; of the unpartitioned spec, so that it goes for all partitions."""
        if not self.rows:
            return
        names = self.chance.sample(self.names, self.chance.randrange(1, 3))
        some = self.chance.sample(self.rows, min(len(self.rows), self.chance.randrange(1, 3)))
        keys = [{name: row[name] for name in names} for row in some]
        self.lake.delete_equal(keys, bounds=self.chance.random() < 0.5)
        self.rows = [row for row in self.rows if {name: row[name] for name in names} not in keys]

    # ---- the table's own changes -------------------------------------------------------------------------------------

    def evolve(self) -> None:
        what = self.chance.choice(["add", "rename", "widen", "move"])
        if what == "add":
            number = self.lake.table.table_metadata.document["last-column-id"] + 1
            self.fields.append(NestedField(number, f"c{number}", self.chance.choice([IntegerType(), StringType()])))
            self.rows = [{**row, f"c{number}": None} for row in self.rows]
        elif what == "rename":
            place = self.chance.randrange(1, len(self.fields))
            old = self.fields[place]
            new = f"r{self.chance.randrange(10**6)}"
            self.fields[place] = NestedField(old.field_id, new, old.field_type)
            self.rows = [{new if name == old.name else name: value for name, value in row.items()} for row in self.rows]
        elif what == "widen":
            for place, old in enumerate(self.fields):
                if isinstance(old.field_type, IntegerType):
                    self.fields[place] = NestedField(old.field_id, old.name, LongType())
        else:
            self.fields.insert(1, self.fields.pop(self.chance.randrange(1, len(self.fields))))
        evolve(self.lake.table, Schema(*self.fields, identifier_field_ids=[1]))

    def respec(self) -> None:
        """Another partition spec; its fields have ids of their own."""
        document = dict(self.lake.table.table_metadata.document)
        number, last = len(document["partition-specs"]), document["last-partition-id"]
        chosen = self.chance.choice(SPECS)
        fields = [
            {"source-id": source, "field-id": last + 1 + n, "transform": transform, "name": f"p{last + 1 + n}"}
            for n, (source, transform) in enumerate(chosen)
        ]
        document["partition-specs"] = [*document["partition-specs"], {"spec-id": number, "fields": fields}]
        self.put(document | {"default-spec-id": number, "last-partition-id": last + len(fields)})

    def upgrade(self) -> None:
        if self.version < 3:
            self.version += 1
            document = dict(self.lake.table.table_metadata.document) | {"format-version": self.version}
            more = {"last-sequence-number": 0} if self.version == 2 else {"next-row-id": 0}
            for old in ("schema", "partition-spec"):
                document.pop(old, None)
            self.put(document | more)

    def put(self, document: dict[str, Any]) -> None:
        folder = self.lake.folder / "metadata"
        number = max(int(path.name[1:].split(".")[0]) for path in folder.glob("v*.metadata.json")) + 1
        (folder / f"v{number}.metadata.json").write_bytes(metadata_to_json(document))
        (folder / "version-hint.text").write_text(str(number))

    # ---- upkeep ------------------------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        """With a write between plan and commit, at times: it is kept, or the rewrite is refused."""
        chance, table = self.chance, self.lake.table
        options: dict[str, object] = {"rewrite-all": chance.random() < 0.6, "min-input-files": 2}
        if chance.random() < 0.5:
            options["sort-order"] = chance.choice(["id", f"zorder(id, {self.fields[1].name})"])
        if chance.random() < 0.3:
            options["output-spec-id"] = chance.randrange(len(table.table_metadata.specs))
        if chance.random() < 0.5:
            options |= {"delete-file-threshold": 1, "remove-dangling-deletes": chance.random() < 0.5}
        if chance.random() < 0.3:
            options["partial-progress.enabled"] = True
        if chance.random() < 0.3:
            options["lakebed.rewrite.concat-min-row-group-bytes"] = 1
        if chance.random() < 0.3:
            options["use-starting-sequence-number"] = False
        before = self.lineage()
        planned = IcebergRewrite.planned(table.operations, "main", None, options, {}, 1 << 20)
        meanwhile = chance.random() < 0.4
        if meanwhile:
            chance.choice([self.append, self.upsert, self.equal] if self.version > 1 else [self.append])()
            self.remember()
        try:
            planned.run(False, LocalEngine(2))
        except CommitConflictError:
            assert meanwhile
        else:
            assert meanwhile or self.keeps(before)

    def upkeep(self) -> None:
        what = self.chance.choice(["manifests", "position-deletes"])
        before = self.lineage()
        if what == "manifests" or self.version > 1:
            more = {"rewrite-all": True} if what == "position-deletes" else {}
            self.lake.table.rewrite(options={"lakebed.rewrite.what": what, **more})
        assert self.keeps(before)

    def expire(self) -> None:
        kept = self.chance.randrange(1, 4)
        self.lake.table.expire(options={"older-than": "2100-01-01", "retain-last": kept})
        left = self.lake.table.table_metadata.snapshots
        assert len(left) <= max(kept, 1)
        self.moments = {number: rows for number, rows in self.moments.items() if number in left}

    # ---- rows --------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def some_rows(self, most: int) -> list[Row]:
        return [
            {field.name: self.value(field) for field in self.fields} for _ in range(self.chance.randrange(1, most + 1))
        ]

    def value(self, field: NestedField) -> Any:
        chance = self.chance
        if field.field_id == 1:
            return chance.randrange(13)
        if chance.random() < 0.2:
            return None
        if isinstance(field.field_type, StringType):
            return chance.choice(PARTS)
        if isinstance(field.field_type, DateType):
            return datetime.date(1970, 1, 1) + datetime.timedelta(chance.randrange(-40, 40))
        if isinstance(field.field_type, TimestampType):
            return datetime.datetime(1970, 1, 1) + datetime.timedelta(hours=chance.randrange(60), microseconds=1)
        return chance.randrange(-20, 20)

    def data(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, arrow_schema(self.lake.table.table_metadata.schema))

    def write(self, rows: list[Row], mode: str, kinds: list[str] | None = None) -> None:
        data = self.data(rows)
        if kinds is not None:
            data = data.append_column(ROW_KIND_COLUMN, pa.array(kinds, pa.string()))
        kind = self.chance.choice(["parquet", "parquet", "orc", "avro"])
        self.lake.table.write(data, mode, {"write-format": kind})

    def lineage(self) -> Counter[str]:
        columns = [*self.names, *(["_row_id", "_last_updated_sequence_number"] if self.version > 2 else [])]
        return bag(self.lake.table.read(columns).read_all())

    def keeps(self, before: Counter[str]) -> bool:
        """Whether each row is there with its id. The first commit after an upgrade to version 3 gives one to the rows
        that have none."""
        gone, new = before - self.lineage(), self.lineage() - before
        return all("('_row_id', None)" in row for row in gone) and without_ids(gone) == without_ids(new)


def without_ids(rows: Counter[str]) -> Counter[str]:
    ids = re.compile(r"\('_(row_id|last_updated_sequence_number)', \w+\), ")
    return Counter(ids.sub("", row) for row in rows.elements())


def counted(rows: list[Row]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def bag(rows: pa.Table) -> Counter[str]:
    return counted(rows.to_pylist())


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), version=st.sampled_from([1, 2, 2, 3]), steps=st.integers(3, 12))
def test_whatever_is_done_to_a_table_its_rows_are_those_of_the_list(seed: int, version: int, steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder) / "t", random.Random(seed), version)
        for _ in range(steps):
            life.step()
        table = life.lake.table
        metadata = table.table_metadata
        assert {number for number in metadata.snapshots if number in life.moments} >= {
            snapshot.snapshot_id for snapshot in [metadata.head()] if snapshot is not None
        }
        for number, rows in life.moments.items():
            assert bag(table.read(as_of=number).read_all()) == counted(rows)
        check_predicates(life)
        check_changes(life)
        assert table.inspect() is not None


def check_predicates(life: Life) -> None:
    whole = life.lake.table.read().read_all()
    for name in whole.column_names:
        values = [value for value in whole[name].to_pylist() if value is not None]
        for predicate in [
            *(pc.field(name) == value for value in values[:2]), *(pc.field(name) > value for value in values[:2]),
            *(~(pc.field(name) < value) for value in values[-1:]), pc.field(name).is_null(),
        ]:  # fmt: skip
            assert bag(life.lake.table.read(where=predicate).read_all()) == bag(whole.filter(predicate))


def check_changes(life: Life) -> None:
    """Of snapshots with one schema; those of others have columns by other names."""
    table, metadata = life.lake.table, life.lake.table.table_metadata
    for after, until in itertools.combinations(life.moments, 2):
        schemas = [schema_at(metadata, number).fields for number in (after, until)]
        if schemas[0] != schemas[1]:
            continue
        state = counted(life.moments[after])
        for row in table.changes(after=after, until=until).read_all().to_pylist():
            kind = row.pop(ROW_KIND_COLUMN)
            state[repr(sorted(row.items()))] += 1 if kind in ("+I", "+U") else -1
        assert {text: n for text, n in state.items() if n} == counted(life.moments[until])
