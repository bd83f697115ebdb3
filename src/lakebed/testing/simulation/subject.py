"""What a format's table needs to be simulated. Each format has one: `paimon.py`, `iceberg.py`, `hudi.py`."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

import lakebed
from lakebed.kernel.files import Store
from lakebed.testing.simulation.changes import Row, State
from lakebed.testing.simulation.columns import Alteration, Cells
from lakebed.testing.simulation.memory import MemoryStore
from lakebed.testing.simulation.model import Head, Model, Seen
from lakebed.testing.simulation.schedule import Verbs
from lakebed.verbs.stream import StreamReader
from lakebed.verbs.table import Table

OLD_SECONDS = 30
"""From which age on a partition may expire."""
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("p", pa.string()), pa.field("v", pa.int64())])
COLUMNS = ("c0", "c1", "c2")
"""The names of columns that come later. A row has its `v` in them, too, or null."""
Options = Mapping[str, object]


class Subject(ABC):
    """One table. Its layout and options come from a seed."""

    format: ClassVar[str]
    verbs: ClassVar[Verbs]
    """The verbs of each role, the writer's first, each with its weight. They are methods of `Process`."""
    themes: ClassVar[Sequence[Verbs]] = ()
    """Verbs that some seeds have instead: those that meet where they seldom do."""
    later_themes: ClassVar[Sequence[Verbs]] = ()
    """Themes of other seeds, which are drawn after those: a new one changes no seed that has one of `themes`."""

    newest_themes: ClassVar[Sequence[Verbs]] = ()
    """Themes of seeds that have none of the others."""

    parts: ClassVar[Mapping[int, str]] = {0: "a", 1: "b"}
    """The partition of an id by its remainder: rows of an id are always in one partition."""
    dues: ClassVar[Mapping[str, float]] = {}
    """From when on a partition may expire by its value, in seconds since 1970. Empty: they expire by their age."""
    expires_by_itself: bool = False
    """Whether any commit may take out partitions that are due."""
    tags_go_back: ClassVar[bool] = True
    """Whether a rollback removes the tags of newer snapshots."""
    tags_go_with_snapshots: bool = False
    """Whether a tag that is made while its snapshot expires goes with it, unless the expiry puts both back."""
    forwards_go_back: ClassVar[bool] = False
    """Whether a fast-forward removes what the table has beyond the beginning of the branch."""
    stops_for_branches: ClassVar[bool] = False
    """Whether a branch is put in the table's place, or removed, only while its writers are stopped."""
    appends_by_key: ClassVar[bool] = True
    """Whether rows that are appended to a table with a key replace those of their keys."""
    by_sequence: ClassVar[bool] = False
    """Whether of two writes at once either may win a row (`Model.by_sequence`)."""
    misses_new: ClassVar[bool] = False
    """Whether a delete may miss a row that comes while it runs (`Model.misses_new`)."""

    keeps_all: ClassVar[bool] = False
    keeps_order: ClassVar[bool] = True
    keeps_newest: bool = True
    """The promises of the history (see `Model`)."""
    forgets_after: ClassVar[float] = math.inf
    """After how many states of others a commit may not know how it ended, though no call has failed."""
    forgets_times_after: ClassVar[float] = math.inf
    """As `forgets_after`, where clocks differ and times do not tell changes apart."""
    upkeep: ClassVar[tuple[str, ...]] = ()
    """How the paths of files begin that a clean-up may remove though they are named: marks and pending instants."""

    table_overwrites: ClassVar[Options] = {}
    """Options of an overwrite that replaces the rows of all partitions."""
    partition_drops: ClassVar[Options] = {}
    """Options of a delete that drops the partitions of its rows."""
    partition_expiries: ClassVar[Options] = {}
    """Options of an expiry of the partitions that nobody has written to for `OLD_SECONDS`."""
    has_buckets: bool = False
    """Whether the table has a number of buckets, which may change."""
    postpones: ClassVar[bool] = False
    """Whether rows wait for a compaction, which gives them buckets."""
    aborts_bind: ClassVar[bool] = True
    """Whether messages that were given up can be committed no more, since their files are gone."""
    forgets_commits: ClassVar[bool] = False
    """Whether a commit of another process of the user can expire, so that no later one knows how it ended."""
    streams: bool = True
    """Whether jobs can follow the table."""
    tells_late: bool = False
    """Whether a stream tells rows only after a compaction, so not snapshot by snapshot."""
    stream_options: ClassVar[Options] = {}
    """Options of opening that say where streams begin."""
    tells_differences: bool = False
    """Whether a stream tells how two snapshots differ: a row that goes with the values that it had, in any order."""
    retells: bool = False
    """Whether a stream may tell a row again that has not changed."""
    tells_overwritten: bool = True
    """Whether a stream tells which rows an overwrite removed."""

    def __init__(self, chance: random.Random) -> None:
        self.completions: dict[str, str] = {}
        """When instants were completed, by their time (Hudi)."""
        self._looks: dict[str, tuple[list[Row], Mapping[str, int]]] = {}
        """The rows of snapshots that were read, and the versions of the files that they came from."""
        self.altered = False
        """Whether somebody has begun to alter the table: until then nobody looks for other columns."""
        self.branched = False
        """Whether somebody has begun to create a branch: until then nobody looks for any."""
        self.keyed = chance.random() < 0.7
        """Whether rows are replaced by their key."""
        self.partitioned = chance.random() < 0.4
        self.ids = chance.choice([2, 3, 6])
        """How many ids there are: few of them meet often."""

    @property
    def write_options(self) -> Options:
        """Options of writes, beside those of the table."""
        return {}

    @property
    def last_write_options(self) -> Options:
        """Options of the write that shows that a table lives, after all others."""
        return self.write_options

    @property
    def open_options(self) -> Options:
        """Options that the table is opened with."""
        return {}

    @property
    def begins_with(self) -> State:
        """The rows that the table has when it is created."""
        return frozenset()

    @abstractmethod
    def create(self, store: Store) -> None:
        """Create the table."""

    @abstractmethod
    def publishes(self, verb: str, path: str) -> bool:
        """Whether a change of this file makes another state of the table visible."""

    def commits(self, verb: str, path: str) -> bool:
        """Whether a call tries to publish a state."""
        return verb in ("put", "replace", "write") and self.publishes(verb, path)

    def plans(self, verb: str, path: str) -> bool:
        """Whether a call comes between a plan and its commit, so that others may publish before it goes on."""
        return self.commits(verb, path)

    @abstractmethod
    def rewrites(self, chance: random.Random) -> Options:
        """Options of one rewrite."""

    @abstractmethod
    def expiries(self, chance: random.Random) -> Options:
        """Options of one expiry, which keeps little."""

    @abstractmethod
    def orphans(self) -> Sequence[Options]:
        """Options of the expiries that remove what failed writes left: one after the other."""

    @abstractmethod
    def named(self, store: MemoryStore) -> set[str]:
        """The files that a state of the table has, or that stay beside them."""

    def needed(self, store: MemoryStore) -> set[str]:
        """The named files that a clean-up may not remove."""
        return self.named(store)

    def wanted(self, store: MemoryStore) -> set[str]:
        """The files that something unfinished may still make part of a state."""
        return set()

    def losable(self, store: MemoryStore) -> Mapping[str, frozenset[int]]:
        """The files that the newest state has and may lose, each with the `v` of the rows in it."""
        return {}

    def position(self, name: str) -> Any:
        """A snapshot's name as `as_of` takes it."""
        return int(name)

    def archives(self, chance: random.Random) -> Options:
        """Options of one archival."""
        return {}

    def open(self, store: Store, branch: str = "") -> Table:
        """Open the table, or a branch of it."""
        return self.opened(store, self._opening(branch))

    def opened(self, store: Store, options: Options) -> Table:
        """Open the table with options."""
        return lakebed.open(store, options)

    def _opening(self, branch: str) -> Options:
        return {**self.open_options, **self.stream_options, **({"branch": branch} if branch else {})}

    def branch_point(self, model: Model, chance: random.Random) -> tuple[Any, Callable[[], Sequence[State]]]:
        """Where a new branch begins, as `Table.branch` takes it, and which states that may be."""
        known, since = dict(model.snapshots), len(model.states) - 1
        name = chance.choice(["", *known])
        if not name:
            return None, lambda: model.states[since:]
        return self.position(name), lambda: [known[name]]

    def heads(self, table: Table) -> Mapping[str, str]:
        """The other branches, each with its snapshot."""
        return {one.name: one.instant for one in table.refs() if one.kind == "branch" and one.name != "main"}

    def branches(self, store: MemoryStore, table: Table) -> dict[str, Head]:
        """The other branches as they are. Snapshots of branches are in the table's history."""
        heads: dict[str, Head] = {}
        for name, snapshot in self.heads(table).items():
            rows = self.rows_before(store, snapshot)
            heads[name] = Head(self._read(store, self.open(store, name), snapshot) if rows is None else rows, snapshot)
        return heads

    def stream(self, store: Store, number: int, anew: bool) -> StreamReader:
        """A stream of the ids and values of rows, that begins with all of them. `number` tells jobs apart that keep
        their progress in the table; `anew`: it begins anew, whatever progress is there."""
        return self.open(store).stream(["id", "v"])

    def complete(self, table: Table) -> None:
        """Do what a process has left half done, before which the table takes no write."""
        return None

    def tell_all(self, table: Table) -> None:
        """Have a stream of the table told of all rows that it has, by a compaction where that tells them."""
        return None

    def other_reads(self, store: Store) -> Iterator[list[Row]]:
        """The newest rows as other ways to read them give them, once `tell_all` has run."""
        return iter(())

    def stands_at(self, position: str) -> str | None:
        """The snapshot up to which a stream has told everything at a position; None where it stands in the middle of
        one, or the position does not say."""
        return None

    def holds(self, position: str) -> bool:
        """Whether the table can keep a position, so that what follows it does not expire."""
        return False

    def tells_each(self, start: str) -> bool:
        """Whether a batch that starts after a snapshot tells each row that came, also one that another row replaced."""
        return True

    def needs(self, name: str, model: Model) -> Sequence[str]:
        """The snapshots that a stream needs which stands at one: the next one, then others."""
        names = [*model.every]
        return names[names.index(name) + 1 :][:1] if name in model.every else ()

    def can_tell(self, store: Store, model: Model, name: str) -> bool:
        """Whether the table still has what a stream reads of a snapshot."""
        return name in model.line

    def see(self, store: MemoryStore) -> Seen:
        """The table as it is. A snapshot whose files are those of before is not read again."""
        table = self.open(store)
        line = tuple(one.time for one in table.history() if one.state == "completed")
        newest = table.newest()
        name = newest.time if newest else ""
        rows = self.rows_before(store, name)
        if rows is None:
            rows = self._read(store, table, name)
        branches = self.branches(store, table) if self.branched else {}
        return Seen(rows, name, line, branches, self._cells(table) if self.altered else None)

    def _cells(self, table: Table) -> Cells:
        """What the newest rows have in the columns beside `id`, `p` and `v`, by their `v`."""
        names = [*self.columns_beside(table)]
        if not names:
            return {}
        read = table.read(["v", *names]).read_all()
        values = read["v"].to_pylist()
        return {name: dict(zip(values, read[name].to_pylist(), strict=True)) for name in names}

    def columns_beside(self, table: Table) -> Mapping[str, pa.DataType]:
        """The types of the columns beside those that the table was created with."""
        return {field.name: field.type for field in table.schema if field.name in COLUMNS}

    def alteration(self, chance: random.Random, names: Sequence[str]) -> tuple[Any, Alteration | None]:
        """A change of the columns, of which `names` are there, as `Table.alter` takes it, and what it makes of them."""
        free = [name for name in COLUMNS if name not in names]
        kind = chance.choice([*("add",) * len(free), *("drop", "rename", "widen") * bool(names)])
        if kind == "add":
            name = chance.choice(free)
            return lakebed.add_column(name, pa.int32()), Alteration(comes=name)
        name = chance.choice(names)
        if kind == "drop":
            return lakebed.drop_column(name), Alteration(goes=name)
        if kind == "rename" and free:
            to = chance.choice(free)
            return lakebed.rename_column(name, to), Alteration(name, to)
        return lakebed.widen(name, pa.int64()), None

    def _read(self, store: MemoryStore, table: Table, snapshot: str) -> list[Row]:
        """The newest rows of a table or a branch, which are those of a snapshot; and which files they came from."""
        with store.noting() as files:
            rows = self.rows_seen(table, snapshot)
        if snapshot:
            listed = {path: files[path] for path in files if files[path] or not self.publishes("put", path)}
            self._looks[snapshot] = rows, {path: listed[path] for path in listed if not self.points(path)}
        return rows

    def rows_seen(self, table: Table, snapshot: str) -> list[Row]:
        """The newest rows of a table, which are those of a snapshot."""
        return rows_of(table.read(["id", "v"]))

    def rows_before(self, store: MemoryStore, name: str) -> list[Row] | None:
        """The rows that a snapshot had when the table was seen, if it still has the same files."""
        if name not in self._looks:
            return None
        rows, files = self._looks[name]
        return rows if store.has(files) else None

    def points(self, path: str) -> bool:
        """Whether a file only says which snapshots there are."""
        return False

    def changes(self, rows: Sequence[Row], beside: Mapping[str, pa.DataType] = {}) -> pa.Table:
        """Rows that replace those of their keys, for a two-phase write."""
        data = self.data(rows, beside)
        if not self.keyed or self.appends_by_key:
            return data
        return data.append_column("_row_kind", pa.array(["+U"] * len(rows), pa.string()))

    def data(self, rows: Sequence[Row], beside: Mapping[str, pa.DataType] = {}) -> pa.Table:
        """Rows as Arrow data. `beside` are further columns, which have the value of `v`."""
        parts = [self.parts[key % len(self.parts)] for key, _ in rows]
        columns: Sequence[Any] = ([key for key, _ in rows], parts, [value for _, value in rows])
        data = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
        for name, type in beside.items():
            data = data.append_column(name, data["v"].cast(type))
        return data


def rows_of(reader: pa.RecordBatchReader) -> list[Row]:
    """The ids and values of rows."""
    table = reader.read_all()
    return [*zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True)]
