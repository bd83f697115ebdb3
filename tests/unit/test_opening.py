"""From a location to its table, and to a new one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import (
    CorruptError,
    LakebedError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
)
from lakebed.formats.opening import is_catalog_name

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("dt", pa.string())])


def test_a_single_name_may_come_without_its_list(tmp_path: Path) -> None:
    table = lakebed.create(tmp_path / "t", "paimon", SCHEMA, primary_key="id", options={"bucket": 2})
    table.write(pa.table({"id": [1, 1], "dt": ["a", "b"]}, schema=SCHEMA))
    assert table.read().read_all().to_pylist() == [{"id": 1, "dt": "b"}]


def test_a_table_is_never_made_over_another(tmp_path: Path) -> None:
    lakebed.create(tmp_path / "t", "paimon", SCHEMA, options={"bucket": -1})
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    for name in ("paimon", "PAIMON"):
        with pytest.raises(TableExistsError, match="there is already a paimon table"):
            lakebed.create(tmp_path / "t", name, SCHEMA)
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_formats_that_cannot_be_made_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="delta"):
        lakebed.create(tmp_path / "t", "delta", SCHEMA)
    assert list(tmp_path.iterdir()) == []


def test_a_hudi_table_that_lakebed_could_not_write_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="the index INMEMORY"):
        lakebed.create(tmp_path / "t", "hudi", SCHEMA, primary_key="id", options={"hoodie.index.type": "INMEMORY"})
    hashed = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    with pytest.raises(UnsupportedError, match="copy-on-write table cannot have consistent hashing"):
        lakebed.create(tmp_path / "t", "hudi", SCHEMA, primary_key="id", options=hashed)
    assert list(tmp_path.rglob("*.properties")) == []


def test_an_iceberg_table_is_recognised_by_its_metadata(tmp_path: Path) -> None:
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "00000-a.metadata.json").write_text("{}")
    with pytest.raises(CorruptError, match=r"00000-a\.metadata\.json"):
        lakebed.open(tmp_path)


@pytest.mark.parametrize(
    ("location", "is_name"),
    [
        ("ice:db.t", True), ("my-cat:a.b.c", True), ("ice:t", False), ("s3:db.t", False), ("c:db.t", False),
        ("ice://db.t", False), ("./ice:db.t", False), ("hdfs:a.b", False),
    ],
)  # fmt: skip
def test_names_of_catalogs_are_no_paths(location: str, is_name: bool) -> None:
    assert is_catalog_name(location) is is_name


def test_a_path_that_looks_like_a_name_stays_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ice:db.t").mkdir()
    monkeypatch.chdir(tmp_path)
    assert not is_catalog_name("ice:db.t")


def test_a_place_without_a_table_is_told_by_what_lies_there(tmp_path: Path) -> None:
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "hive" / "dt=2024-01-01").mkdir(parents=True)
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "files" / "a.parquet")
    table = lakebed.create(tmp_path / "orders", "paimon", SCHEMA, primary_key="id", partition_by="dt")
    table.write(pa.table({"id": [1], "dt": ["a"]}, schema=SCHEMA))
    hudi = lakebed.create(tmp_path / "hudi", "hudi", SCHEMA, primary_key="id", partition_by="dt")
    hudi.write(pa.table({"id": [1], "dt": ["a"]}, schema=SCHEMA))
    for place, said in {
        "delta": "this is a Delta Lake table .*The package deltalake reads it",
        "hive": "this is a folder of plain files, not a table .*lakebed.snapshot makes an Iceberg table of them",
        "files": "this is a folder of plain files, not a table",
        "files/a.parquet": "this is a file, not a table",
        "order": f"the path does not exist .*Did you mean '{tmp_path}/orders'",
        "Orders": f"Did you mean '{tmp_path}/orders'",
        "orders/dt=a": "this is a folder inside a table",
        "hudi/a": "this is a folder inside a table",
        "": "not a Hudi, Paimon or Iceberg table",
    }.items():
        with pytest.raises(TableNotFoundError, match=said):
            lakebed.open(tmp_path / place)
    for columns, where in ((["Di"], None), (None, "di = 1")):
        with pytest.raises(LakebedError, match=r"Did you mean 'id'\? Columns: id, dt"):
            table.read(columns=columns, where=where)


def test_spellings_of_the_bundles_say_what_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lakebed.create(tmp_path / "t", "iceberg", {"id": "int64"})
    for location, said in (
        (f"{tmp_path}/t/*/*", rf"without wildcards: '{tmp_path}/t'"),
        (f"{tmp_path}/t#files", rf"table\.metadata\('files'\).*lakebed_metadata\('{tmp_path}/t', 'files'\)"),
        ("db.orders", r'"CATALOG:db\.orders"'),
    ):
        with pytest.raises(TableNotFoundError, match=said):
            lakebed.open(location)
