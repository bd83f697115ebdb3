"""Plans and results of timeline actions: every such file in the golden tables, decoded and encoded again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec import plans
from lakebed.formats.hudi.codec.plans import Plan, decode, encode
from lakebed.kernel.avro.container import MAGIC, take_apart
from lakebed.kernel.avro.records import read_records
from tests.golden import names, unpack

KINDS: dict[str, type[Plan]] = {
    f"Hoodie{kind.__name__}": kind
    for kind in vars(plans).values()
    if isinstance(kind, type) and issubclass(kind, Plan) and kind is not Plan
}


def state_files(table: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted((table / ".hoodie").rglob("*")):
        if path.is_file() and path.name[:14].isdecimal() and (data := path.read_bytes()).startswith(MAGIC):
            yield path.name, data


def without(schema: Any, *fields: str) -> Any:
    """A schema without some record fields."""
    if isinstance(schema, list):
        return [without(part, *fields) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: without(value, *fields) for key, value in schema.items() if key != "fields"}
    if "fields" in schema:
        kept["fields"] = [without(field, *fields) for field in schema["fields"] if field["name"] not in fields]
    return kept


@pytest.mark.parametrize("name", names("hudi"))
def test_golden_files_decode_and_encode_to_the_same_records_and_schemas(name: str) -> None:
    for file, data in state_files(unpack("hudi", name)):
        theirs = take_apart(data).schema
        if theirs["name"] not in KINDS:
            continue
        encoded = encode(decode(KINDS[theirs["name"]], data))
        ours = take_apart(encoded).schema
        old = () if '"missingSchedulePartitions"' in json.dumps(theirs) else ("missingSchedulePartitions",)
        assert without(ours, *old) == without(theirs), file
        (record,), (again,) = read_records(data), read_records(encoded)
        assert strip(again, *old) == record, file


def strip(record: Any, *keys: str) -> Any:
    if isinstance(record, dict):
        return {key: strip(value, *keys) for key, value in record.items() if key not in keys}
    return [strip(item, *keys) for item in record] if isinstance(record, list) else record


@pytest.mark.parametrize("kind", [kind for name, kind in KINDS.items() if name.endswith(("Plan", "Metadata"))])
def test_bytes_of_another_kind_are_corrupt(kind: type[Plan]) -> None:
    for data in (b"", b"{}", b"Obj\x01"):
        with pytest.raises(CorruptError):
            decode(kind, data)


def test_a_restore_keeps_its_rollbacks() -> None:
    info = plans.InstantInfo(commit_time="20260101000000000", action="commit")
    rollback = plans.RollbackMetadata(
        start_rollback_time="20260101000000001",
        time_taken_in_millis=1,
        total_files_deleted=1,
        commits_rollback=(info.commit_time,),
        partition_metadata={
            "a": plans.RollbackPartitionMetadata(partition_path="a", success_delete_files=("a/f.parquet",))
        },
        instants_rollback=(info,),
    )
    restore = plans.RestoreMetadata(
        start_restore_time="20260101000000002",
        time_taken_in_millis=2,
        instants_to_rollback=(info.commit_time,),
        rollbacks={info.commit_time: (rollback,)},
        restore_instant_info=(info,),
    )
    assert decode(plans.RestoreMetadata, encode(restore)) == restore
    plan = plans.RestorePlan(instants_to_rollback=(info,), savepoint_to_restore_timestamp="20260101000000000")
    assert decode(plans.RestorePlan, encode(plan)) == plan
