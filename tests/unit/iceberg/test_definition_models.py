"""Sort orders, name mappings and places of data files are read as pyiceberg's own classes read them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.name_mapping import MappedField, parse_mapping_from_json
from pyiceberg.table.sorting import SortOrder as TheirOrder

from lakebed.errors import UnsupportedError
from lakebed.formats.iceberg.codec import name_mapping
from lakebed.formats.iceberg.codec.metadata import TableMetadata
from lakebed.formats.iceberg.codec.sort_order import SortOrder
from lakebed.formats.iceberg.layout import data_location

FIELDS: list[dict[str, Any]] = [
    {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-last"},
    {"source-id": 2, "transform": "bucket[4]", "direction": "desc"},
    {"source-ids": [3], "transform": "truncate[3]"},
    {"source-id": 4, "transform": "unheard-of", "direction": "desc", "null-order": "nulls-first"},
]


def test_a_sort_order_is_what_pyiceberg_reads() -> None:
    ours, theirs = SortOrder.parse({"fields": FIELDS}), TheirOrder.model_validate({"order-id": 1, "fields": FIELDS})
    written = [field.model_dump(by_alias=True, mode="json", exclude_none=True) for field in theirs.fields]
    assert [field.to_json() for field in ours.fields] == written


BROKEN: dict[str, Any] = {
    "empty": {}, "two columns": {"source-ids": [1, 2]}, "direction": {"source-id": 1, "direction": "up"},
    "nulls": {"source-id": 1, "null-order": "x"}, "number": 7,
}  # fmt: skip


@pytest.mark.parametrize("field", BROKEN.values(), ids=BROKEN)
def test_a_sort_order_that_nobody_can_read_is_refused(field: Any) -> None:
    metadata = TableMetadata(
        {"format-version": 2, "location": "t", "sort-orders": [{"order-id": 1, "fields": [field]}]}
    )
    with pytest.raises(UnsupportedError, match="SortOrder"):
        _ = metadata.sort_orders


def test_a_name_mapping_is_what_pyiceberg_reads() -> None:
    text = json.dumps([
        {"field-id": 1, "names": ["id", "key"]},
        {"names": ["gone"], "fields": None},
        {"field-id": 2, "names": ["a"], "fields": [{"field-id": 3, "names": ["element"]}]},
    ])  # fmt: skip

    def as_ours(field: MappedField) -> name_mapping.MappedField:
        return name_mapping.MappedField(tuple(field.names), field.field_id, tuple(map(as_ours, field.fields)))

    assert name_mapping.NameMapping.parse(text).root == tuple(map(as_ours, parse_mapping_from_json(text).root))
    for other in ("{}", "[7]", '[{"field-id": 1}]', '[{"names": "id"}]', "nonsense"):
        with pytest.raises((ValueError, TypeError, KeyError)):
            name_mapping.NameMapping.parse(other)


@pytest.mark.parametrize("object_storage", ["", "false", "true"])
@pytest.mark.parametrize("folder", ["", "s3://other/place/"])
def test_a_data_file_lies_where_pyiceberg_puts_it(object_storage: str, folder: str) -> None:
    given = {"write.object-storage.enabled": object_storage, "write.data.path": folder}
    properties = {key: value for key, value in given.items() if value}
    place = load_location_provider("s3://lake/t", properties).new_data_location("p=1/f.parquet")
    assert data_location("s3://lake/t", properties, "p=1", "f.parquet") == place.replace("place//", "place/")
