"""An Iceberg table on an object store, by path and in a catalog, with one set of credentials."""

from pathlib import Path

import pytest

import lakebed
from tests.tables.iceberg import commits
from tests.tables.iceberg.small import create, data_file, ids
from tests.unit.kernel.conftest import bucket, s3_endpoint, s3_options

__all__ = ["bucket", "s3_endpoint", "s3_options"]


@pytest.mark.slow
def test_a_path_table(bucket: str, s3_options: dict[str, str]) -> None:
    table = create(f"{bucket}/lake/t", 3, **s3_options)
    commits.append(table.operations, [data_file(table, [1])])
    commits.append(table.operations, [data_file(table, [2])])
    commits.overwrite(table.operations, [data_file(table, [3])])
    assert ids(table) == [3]
    assert len(table.expire(options={"older-than": "2100-01-01"}).expired) == 2
    assert ids(lakebed.open(f"{bucket}/lake/t", s3_options)) == [3]  # type: ignore[arg-type]
    assert table.expire(options={"expire-snapshots": False, "remove-orphan-files": True}).deleted_files == ()


@pytest.mark.slow
def test_a_catalogs_table(tmp_path: Path, bucket: str, s3_options: dict[str, str]) -> None:
    options = {
        **s3_options, "lakebed.catalog.type": "sql", "lakebed.catalog.uri": f"sqlite:///{tmp_path}/c.db",
        "lakebed.catalog.warehouse": f"{bucket}/wh",
    }  # fmt: skip
    table = create("cat:db.t", **options)
    commits.append(table.operations, [data_file(table, [1, 2])])
    assert ids(lakebed.open("cat:db.t", options)) == [1, 2]  # type: ignore[arg-type]
    assert table.location.startswith(f"{bucket}/wh")
