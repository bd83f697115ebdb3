"""Files of older partition specs, rewritten into the current one: the run does what its dry run promised."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import UnsupportedError

ROWS = pa.schema([("k", pa.int32()), ("reg", pa.string()), ("day", pa.date32())])
DATA = pa.table(
    {"k": [1, 2, 3, 4], "reg": ["us", "eu", None, "us"], "day": pa.array([0, 1, 40, None], pa.date32())},
    schema=ROWS,
)  # fmt: skip
Spec = Sequence[tuple[str, int, str]]
"""(name, column, transform) of each field."""


def evolved(folder: Path, old: str, spec: Spec, version: str, drop: Sequence[int] = ()) -> Any:
    """A table with files of the spec `old` that has another spec now and has lost some columns."""
    table: Any = lakebed.create(
        folder, "iceberg", ROWS, partition_by=[old] if old else [], options={"format-version": version}
    )
    table.write(DATA.slice(0, 2))
    table.write(DATA.slice(2))
    newest = folder / "metadata" / "v3.metadata.json"
    document = json.loads(newest.read_text())
    fields = [
        {"source-id": column, "field-id": 1000 + at, "transform": transform, "name": name}
        for at, (name, column, transform) in enumerate(spec)
    ]
    document["partition-specs"].append({"spec-id": 1, "fields": fields})
    document["default-spec-id"] = 1
    if drop:
        schema = json.loads(json.dumps(document["schemas"][0]))
        schema |= {"schema-id": 1, "fields": [field for field in schema["fields"] if field["id"] not in drop]}
        document["schemas"].append(schema)
        document["current-schema-id"] = 1
        if "schema" in document:
            document["schema"] = schema
    newest.write_text(json.dumps(document))
    return lakebed.open(folder)


SPECS: Mapping[str, Spec] = {
    "none": (), "void": (("reg", 2, "void"),), "bucket": (("k_b", 1, "bucket[2]"),), "day": (("d", 3, "day"),),
    "void and more": (("reg", 2, "void"), ("t", 2, "truncate[1]")), "identity": (("reg2", 2, "identity"),),
}  # fmt: skip
ORDERS: Sequence[Mapping[str, str]] = (
    {"rewrite-all": "true"}, {"rewrite-all": "true", "sort-order": "k desc"},
    {"rewrite-all": "true", "sort-order": "zorder(k, day)"}, {"lakebed.rewrite.other-specs": "true"},
)  # fmt: skip


def rows(table: Any) -> list[str]:
    return sorted(map(str, table.read().read_all().to_pylist()))


@pytest.mark.slow
@pytest.mark.parametrize("old", ["reg", "bucket(3, k)"])
@pytest.mark.parametrize("name", SPECS)
def test_every_evolution(old: str, name: str, tmp_path: Path) -> None:
    version = "1" if "void" in name else "2"
    for number, options in enumerate(ORDERS if name == "none" else ORDERS[:1]):
        table = evolved(tmp_path / str(number), old, SPECS[name], version)
        before = rows(table)
        planned = table.rewrite(options=options, dry_run=True)
        done = table.rewrite(options=options)
        assert rows(table) == before and done.groups == planned.groups > 0
        assert table.rewrite(options={"lakebed.rewrite.other-specs": "true"}, dry_run=True).groups == 0
        table.rewrite(options={"lakebed.rewrite.what": "manifests"})
        table.expire(options={"older-than": "2100-01-01", "clean-expired-metadata": "true"})
        assert rows(table) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["none", "void", "day"])
def test_a_column_dropped_after_its_field(name: str, tmp_path: Path) -> None:
    table = evolved(tmp_path / "t", "reg", SPECS[name], "1" if name == "void" else "2", drop=[2])
    before = rows(table)
    table.write(DATA.select(["k", "day"]).slice(0, 1))
    assert len(rows(table)) == len(before) + 1
    assert table.rewrite(options={"rewrite-all": "true"}, dry_run=True).groups
    assert table.rewrite(options={"rewrite-all": "true"}).groups and len(rows(table)) == len(before) + 1


def test_a_partition_that_cannot_be_made_is_refused_by_the_plan(tmp_path: Path) -> None:
    table = evolved(tmp_path / "t", "k", SPECS["identity"], "2", drop=[2])
    for dry_run in (True, False):
        with pytest.raises(UnsupportedError, match="which the table no longer has"):
            table.rewrite(options={"rewrite-all": "true"}, dry_run=dry_run)
