"""Alterations of tables in catalogs: what is sent, what it leaves, and answers that do not come."""

from __future__ import annotations

import secrets

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CommitUnknownError, StorageError
from lakebed.formats.iceberg.table import IcebergTable
from tests.tables.iceberg.rest_server import Failure, RestCatalog
from tests.tables.iceberg.small import create, ids
from tests.unit.iceberg.catalog.conftest import options_of
from tests.unit.iceberg.catalog.test_outcomes import QUICK
from tests.unit.kernel.conftest import bucket, s3_options

__all__ = ["bucket", "s3_options"]
CHANGES = [
    lakebed.set_option("format-version", 3), lakebed.add_column("n", "int", default=5), lakebed.rename_column("p", "q"),
    lakebed.replace_partition_field("p", "bucket(2, q)"), lakebed.set_sort_order("id desc"),
    lakebed.set_option("a", "b"),
]  # fmt: skip


def check(table: IcebergTable) -> None:
    metadata = table.table_metadata
    assert table.schema.names == ["id", "q", "n"] and metadata.format_version == 3
    assert [field.name for field in metadata.spec.fields] == ["q_bucket_2"] and metadata.default_sort_order_id == 1
    assert metadata.properties["a"] == "b" and metadata.last_column_id == 3 and metadata.last_partition_id == 1001


@pytest.mark.slow
def test_every_kind_of_change(catalog: dict[str, str]) -> None:
    name = f"cat:db.t{secrets.token_hex(4)}"
    table = create(name, 2, **catalog)
    table.write(pa.table({"id": [1], "p": ["a"]}))
    planned = table.alter(CHANGES, dry_run=True)
    assert table.schema.names == ["id", "p"]
    assert table.alter(CHANGES).schema == planned.schema
    check(table)
    again = lakebed.open(name, catalog)
    again.write(pa.table({"id": [2], "q": ["b"]}))
    again.alter([lakebed.remove_option("a"), lakebed.drop_column("n"), lakebed.add_column("n", "string")])
    table.rewrite(options={"rewrite-all": True})
    assert table.read().read_all().sort_by("id").to_pylist() == [
        {"id": 1, "q": "a", "n": None}, {"id": 2, "q": "b", "n": None},
    ]  # fmt: skip


def started(rest: RestCatalog) -> IcebergTable:
    table = create("cat:db.t", 2, **{**options_of(rest), **QUICK})
    table.write(pa.table({"id": [1], "p": ["a"]}))
    return table


def test_what_is_sent_to_a_rest_catalog(rest: RestCatalog) -> None:
    started(rest).alter(CHANGES)
    sent = rest.commits[-1]
    assert {requirement["type"] for requirement in sent["requirements"]} == {
        "assert-table-uuid", "assert-last-assigned-field-id", "assert-current-schema-id", "assert-default-spec-id",
        "assert-last-assigned-partition-id", "assert-default-sort-order-id",
    }  # fmt: skip
    assert [update["action"] for update in sent["updates"]] == [
        "upgrade-format-version", "add-schema", "set-current-schema", "add-spec", "set-default-spec", "add-sort-order",
        "set-default-sort-order", "set-properties",
    ]  # fmt: skip


@pytest.mark.parametrize("status", [500, 0, 409])
def test_an_alteration_that_landed_without_a_word(rest: RestCatalog, status: int) -> None:
    table = started(rest)
    rest.failures = [Failure(status, after=True)]
    assert table.alter(CHANGES).version == "1"
    check(table)
    assert len(table.table_metadata.schemas) == 2 and ids(table) == [1]


@pytest.mark.parametrize(("status", "kind"), [(503, CommitUnknownError), (403, StorageError)])
def test_an_alteration_that_did_not_land(rest: RestCatalog, status: int, kind: type[Exception]) -> None:
    table = started(rest)
    rest.failures = [Failure(status)] * 2
    with pytest.raises(kind):
        table.alter(CHANGES)
    assert table.schema.names == ["id", "p"]
    rest.failures = []
    table.alter(CHANGES)
    check(table)
