"""Commit messages and compaction tasks in the reference engine's own bytes."""

import json
from typing import Any

import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.paimon.commit import serializers as codec
from tests.golden import HERE

VECTORS = [json.loads(line) for line in (HERE / "paimon/serializer_vectors.jsonl").read_text("utf-8").splitlines()]
READ = {
    "CommitMessage": (codec.deserialize_message, codec.serialize_message),
    "AppendCompactTask": (codec.deserialize_append_task, codec.serialize_append_task),
    "MultiTableAppendCompactTask": (codec.deserialize_multi_table_task, codec.serialize_multi_table_task),
    "list of AppendCompactTask": (codec.deserialize_append_tasks, codec.serialize_append_tasks),
}


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["kind"] in READ], ids=lambda v: f"{v['kind']}-{len(v['bytes'])}"
)
def test_bytes_to_values_and_back(vector: dict[str, Any]) -> None:
    read, write = READ[vector["kind"]]
    data = bytes.fromhex(vector["bytes"])
    value: Any = read(vector["version"], data)
    assert write(value).hex() == vector["bytes"]
    if vector["kind"] == "CommitMessage":
        assert value.bucket == vector["bucket"]
        assert value.total_buckets == vector["totalBuckets"]
        assert value.partition[4:].hex() == vector["partition"]
        for mine, theirs in (
            ("new_files", "newFiles"),
            ("compact_before", "compactBefore"),
            ("compact_after", "compactAfter"),
        ):
            check_files(getattr(value, mine), vector.get(theirs, []))
        for mine, theirs in (("new_index_files", "newIndexFiles"), ("compact_new_index_files", "compactNewIndexFiles")):
            index_files = [(i.index_type, i.file_name, i.file_size, i.row_count) for i in getattr(value, mine)]
            assert index_files == [
                (i["indexType"], i["fileName"], i["fileSize"], i["rowCount"]) for i in vector.get(theirs, [])
            ]
    elif vector["kind"] == "AppendCompactTask":
        check_files(value.compact_before, vector["compactBefore"])
    elif vector["kind"] == "MultiTableAppendCompactTask":
        assert (value.database, value.table) == (vector["database"], vector["object"])
        check_files(value.task.compact_before, vector["compactBefore"])
    else:
        assert len(value) == vector["count"]
    for cut in (data[:-1], data[: len(data) // 2], data + b"\0"):
        with pytest.raises(CorruptError):
            read(vector["version"], cut)


def check_files(files: Any, wanted: list[dict[str, Any]]) -> None:
    assert [
        (f.file_name, f.file_size, f.row_count, f.level, f.min_sequence_number, f.creation_time, f.delete_row_count)
        for f in files
    ] == [
        (
            w["fileName"],
            w["fileSize"],
            w["rowCount"],
            w["level"],
            w["minSequenceNumber"],
            w["creationTimeEpochMillis"],
            w["deleteRowCount"],
        )
        for w in wanted
    ]
    for file, want in zip(files, wanted, strict=True):
        assert file.min_key[4:].hex() == want["minKey"]
        assert file.value_stats.max_values[4:].hex() == want["valueStatsMax"]
        assert list(file.value_stats.null_counts) == want["valueStatsNulls"]


@pytest.mark.parametrize("kind", READ)
@pytest.mark.parametrize("version", [0, 3, 7, 11])
def test_another_version_is_refused(kind: str, version: int) -> None:
    with pytest.raises(UnsupportedError, match=rf"version to be \d+, but found {version}"):
        READ[kind][0](version, b"")
