"""Snapshot files as other engines write them."""

import json

import pytest

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.snapshot_json import snapshot_from_json, snapshot_to_json

WRITTEN = {
    "version": 3, "id": 4, "schemaId": 0, "baseManifestList": "b", "deltaManifestList": "d", "commitUser": "u",
    "commitIdentifier": 1, "commitKind": "APPEND", "timeMillis": 1_700_000_000_000, "totalRecordCount": 7,
    "deltaRecordCount": 7,
}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"nextRowId": None}, {"watermark": None, "statistics": None}])
def test_what_an_engine_leaves_out_or_null_is_not_there(more: dict[str, None]) -> None:
    snapshot = snapshot_from_json(json.dumps(WRITTEN | more).encode())
    assert snapshot.next_row_id is None and snapshot.watermark is None and snapshot.total_record_count == 7
    assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot


def test_a_value_of_another_type_is_damage() -> None:
    for wrong in ({"nextRowId": "7"}, {"id": True}, {"commitUser": 1}):
        with pytest.raises(CorruptError, match="the snapshot file cannot be read"):
            snapshot_from_json(json.dumps(WRITTEN | wrong).encode())
