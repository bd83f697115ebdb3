"""DuckDB, a reader of its own, on Iceberg tables that lakebed rewrote or wrote: the rows that Iceberg's own engine read
when it made the tables, and what upserts left."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.formats.iceberg.table import IcebergTable
from tests.golden import expected
from tests.golden.compare import diff, load
from tests.interop.hudi_ask import ask
from tests.interop.iceberg_rewritten import LIKE_BEFORE, REWRITTEN, Rewritten, rewritten
from tests.interop.test_iceberg_sink_outside import SCHEMA, TABLES, change, rows

pytestmark = pytest.mark.timeout(1800)
NOT_READ = {
    ("codecs", "before"): 'codec "LZ4"',
    ("eq_deletes", "before"): "'AVRO' not supported",
    ("eq_deletes", "first"): "'AVRO' not supported",
    ("mixed_formats", "before"): "'(AVRO|ORC)' not supported",
    ("mixed_formats", "first"): "'(AVRO|ORC)' not supported",
    ("uuid_time_fixed", "before"): "'AVRO' not supported",
}
"""What DuckDB says of a table as it was, or while delete files that nothing needs are kept. Of two formats that it does
not read it names the one that it comes upon first."""
READ_WRONGLY = {("eq_deletes_part", "before")}
"""DuckDB lets equality deletes of one partition delete in all of them."""


@dataclass
class Told:
    """The tables; what DuckDB answered of each state, and what it read."""

    folder: Path
    tables: dict[str, Rewritten]
    written: dict[str, IcebergTable]
    errors: dict[str, str]

    def read(self, name: str) -> pa.Table:
        assert not self.errors[name], self.errors[name]
        with pa.OSFile(str(self.folder / name)) as source:
            return pa.ipc.open_stream(source).read_all()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder, answers = tmp_path_factory.mktemp("rewritten"), tmp_path_factory.mktemp("duckdb")
    tables = rewritten(folder)
    places = {f"{name} {step}": place for name, one in tables.items() for step, place in one.states.items()}
    written = {}
    for name, (version, by, _) in TABLES.items():
        table = lakebed.create(folder / "sink" / name, "iceberg", SCHEMA, ["id"], by, {"format-version": version})
        assert isinstance(table, IcebergTable)
        table.write(rows(list(range(60))))
        change(table, 10)
        written[name], places[f"sink {name}"] = table, table.operations.load().location
        table.rewrite(options={"rewrite-all": True, "remove-dangling-deletes": True})
        places[f"sink {name} rewritten"] = table.operations.load().location
    asked = [{"name": name, "metadata": place, "to": str(answers / name)} for name, place in places.items()]
    found = ask("LAKEBED_INTEROP_PYTHON", "duckdb_peer.py", [], [json.dumps(request) for request in asked])
    return Told(answers, tables, written, {answer["name"]: answer["error"] for answer in found})


@pytest.mark.parametrize("name", REWRITTEN)
def test_the_same_rows_after_each_rewrite(told: Told, name: str) -> None:
    wanted = load(expected(told.tables[name].folder) / "rows.jsonl")
    for step in LIKE_BEFORE:
        if reason := NOT_READ.get((name, step)):
            assert re.search(reason, told.errors[f"{name} {step}"])
            continue
        difference = diff("iceberg", told.read(f"{name} {step}"), wanted)
        assert (difference is None) != ((name, step) in READ_WRONGLY), f"{step}: {difference}"


@pytest.mark.parametrize("name", REWRITTEN)
def test_the_same_rows_when_files_of_both_are_joined(told: Told, name: str) -> None:
    grown, joined = (bag(told.read(f"{name} {step}")) for step in ("grown", "joined"))
    assert grown == joined


@pytest.mark.parametrize("name", TABLES)
def test_what_a_sink_wrote_and_replaced(told: Told, name: str) -> None:
    ours = bag(told.written[name].read().read_all())
    assert bag(told.read(f"sink {name}")) == ours and len(ours) == 60
    assert bag(told.read(f"sink {name} rewritten")) == ours


def bag(found: pa.Table) -> list[str]:
    return sorted(map(str, found.to_pylist()))
