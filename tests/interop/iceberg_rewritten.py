"""The golden Iceberg tables, rewritten in every way, each state registered in one SQLite catalog for outside readers.

`FOLDER/catalog.db` (catalog `ice`) names the table itself `db.NAME` and its states `db.NAME_STEP`: `before`; `first`
(bin-pack, byte for byte where that may be, delete files that nothing needs kept); `encoded` (decoded and encoded,
without such delete files); `sorted`; `grown` (lakebed appended rows again); `joined` (the fast way again). The first
four hold the same rows, and so do the last two.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.golden import names, opening, unpack

LIKE_BEFORE = ("before", "first", "encoded", "sorted")
LIKE_GROWN = ("grown", "joined")
STEPS = (*LIKE_BEFORE, *LIKE_GROWN)
REFUSED = ("variant_v3",)
"""Not written at all: variants."""
POSITIONS = "eq_deletes_part"
"""The table whose equality deletes become position deletes as its first rewrite."""
REWRITTEN = [name for name in names("iceberg") if name not in REFUSED]
_JOIN, _ENCODE = ({"lakebed.rewrite.concat-min-row-group-bytes": size} for size in (1, 1 << 40))


@dataclass
class Rewritten:
    """A table and the locations of the metadata of its states; which rewrites joined files byte for byte."""

    folder: Path
    version: int
    columns: list[str]
    states: dict[str, str] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)


def opened(folder: Path, name: str) -> IcebergTable:
    """The table as it is now: by the catalog, or by its path where no catalog wrote it."""
    by_path = folder / "db" / name
    options = {"lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{folder}/catalog.db"}
    options |= opening(folder / name)
    table = lakebed.open(by_path) if by_path.exists() else lakebed.open(f"ice:db.{name}", options)
    assert isinstance(table, IcebergTable)
    return table


def rewritten(folder: Path) -> dict[str, Rewritten]:
    """All golden tables that can be, laid in `folder` and rewritten four times."""
    found = {}
    for name in REWRITTEN:
        unpack("iceberg", name, into=folder / "db" if name == "hadoop_v2" else folder)
        found[name] = _rewrite(folder, name)
    with sqlite3.connect(folder / "catalog.db") as database:
        database.executemany(
            "INSERT INTO iceberg_tables VALUES ('ice', 'db', ?, ?, NULL, 'TABLE')",
            [(f"{name}_{step}", place) for name, one in found.items() for step, place in one.states.items()],
        )
    database.close()
    return found


def _rewrite(folder: Path, name: str) -> Rewritten:
    table = opened(folder, name)
    story = Rewritten(
        Path(table.location.removeprefix("file:")), table.table_metadata.format_version, table.schema.names
    )

    def state(step: str, options: dict[str, Any] | None = None) -> None:
        if options is not None:
            every = {} if "lakebed.rewrite.what" in options else {"rewrite-all": True}
            notes = table.rewrite(options={**every, **options}).notes
            story.joined |= {step for note in notes if "joined without decoding" in note}
        story.states[step] = table.operations.load().location

    state("before")
    state("first", _JOIN) if name != POSITIONS else state("first", {"lakebed.rewrite.what": "equality-deletes"})
    state("encoded", {**_ENCODE, "remove-dangling-deletes": True})
    state("sorted", {"sort-order": f"{story.columns[0]} desc nulls last"})
    table.write(table.read().read_all().slice(0, 5))
    state("grown")
    state("joined", _JOIN)
    return story
