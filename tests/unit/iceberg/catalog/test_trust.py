"""A catalog decides where its tables lie and how they are reached. Code and storage settings in a table's own
properties are ignored."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.data_files import DataFile
from tests.tables.iceberg import commits

ROWS = pa.schema([("id", pa.int64())])
MAPPING = json.dumps([{"field-id": 1, "names": ["id"]}])


def sql(folder: Path) -> dict[str, str]:
    return {
        "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{folder}/catalog.db",
        "lakebed.catalog.warehouse": str(folder / "lake"),
    }  # fmt: skip


def ids(table: Any) -> list[int]:
    return sorted(table.read().read_all()["id"].to_pylist())


def test_code_and_keys_are_not_the_tables_to_choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "evil_io.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    told = {
        "py-io-impl": "evil_io.FileIO", "s3.endpoint": "http://127.0.0.1:1", "s3.region": "evil",
        "lakebed.storage.provider": "evil_io:keys", "s3.retry-strategy-impl": "evil_io.Retry",
    }  # fmt: skip
    options = sql(tmp_path)
    made: Any = lakebed.create("ice:db.t", "iceberg", ROWS, options=options)
    made.write(pa.table({"id": [1]}))
    base = made.operations.load()
    made.operations.commit(base, (), [{"action": "set-properties", "updates": told}])
    table: Any = lakebed.open("ice:db.t", {**options, "lakebed.storage.setting.aws_region": "mine"})
    table.write(pa.table({"id": [2]}))
    assert ids(table) == [1, 2]
    assert table.table_metadata.properties["py-io-impl"] == "evil_io.FileIO"
    credentials = table.operations.files.credentials
    assert credentials.provider == "environment" and dict(credentials.plain) == {"aws_region": "mine"}
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_catalog_names_the_places_of_its_tables(tmp_path: Path) -> None:
    places = {"write.data.path": str(tmp_path / "data"), "write.metadata.path": f"file://{tmp_path}/meta"}
    table: Any = lakebed.create("ice:db.t", "iceberg", ROWS, options={**sql(tmp_path), **places})
    table.write(pa.table({"id": [1]}))
    table.write(pa.table({"id": [2]}))
    assert ids(lakebed.open("ice:db.t", sql(tmp_path))) == [1, 2]
    assert len(list((tmp_path / "data").rglob("*.parquet"))) == 2 and list((tmp_path / "meta").iterdir())
    table.rewrite(options={"rewrite-all": True})
    table.expire(options={"older-than": "2100-01-01"})
    assert ids(table) == [1, 2] and len(list((tmp_path / "data").rglob("*.parquet"))) == 1


def test_files_that_lie_elsewhere_need_the_callers_word(tmp_path: Path) -> None:
    options = sql(tmp_path)
    table: Any = lakebed.create(
        "ice:db.t", "iceberg", ROWS, options={**options, "schema.name-mapping.default": MAPPING}
    )
    (tmp_path / "raw").mkdir()
    pq.write_table(pa.table({"id": [7]}), tmp_path / "raw" / "f.parquet")
    path = tmp_path / "raw" / "f.parquet"
    commits.append(table.operations, [DataFile(str(path), "PARQUET", 0, (), 1, path.stat().st_size)])
    with pytest.raises(UnsupportedError, match=r"lakebed\.storage\.places"):
        ids(lakebed.open("ice:db.t", options))
    named: Any = lakebed.open("ice:db.t", {**options, "lakebed.storage.places": str(tmp_path / "raw")})
    assert ids(named) == [7]
    named.write(pa.table({"id": [8]}), "overwrite")
    done = lakebed.open("ice:db.t", options).expire(options={"older-than": "2100-01-01"})
    assert path.exists() and [one.what for one in done.kept if "outside" in one.reason] == [str(path)]
