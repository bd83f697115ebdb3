"""Commit metadata from JSON to Avro, beside fastavro's general writer: small ones, decoded at once, and large ones, by
slices, give the same bytes."""

import io
import json
from typing import Any

import fastavro
import pytest

from lakebed.formats.hudi.codec import archive_json
from lakebed.formats.hudi.codec.archive_json import commit_datum
from lakebed.formats.hudi.codec.archive_schema import parsed_type

STAT = {
    "fileId": "7a1b-0", "path": "dt=2026-01-01/größe.parquet", "prevCommit": "null", "numWrites": 5, "numDeletes": 0,
    "totalWriteBytes": 1 << 40, "partitionPath": "dt=2026-01-01", "fileSizeInBytes": -1, "minEventTime": None,
    "runtimeStats": {"totalScanTime": 0, "totalUpsertTime": 3, "totalCreateTime": 1023},
    "logFiles": [".a.log.1", "x" * 3000], "cdcStats": {"one": 1, "two": 1024}, "someNewerField": {"a": [1]},
}  # fmt: skip
PLAIN: dict[str, Any] = {
    "partitionToWriteStats": {"dt=2026-01-01": [STAT, {**STAT, "path": "p" * 1024}], "": []},
    "compacted": False,
    "extraMetadata": {"schema": "{}", "empty": "", "none at all": "null"},
    "operationType": "UPSERT",
    "version": 1,
    "unknown": None,
}
FORMS = pytest.mark.parametrize("at_once", [True, False])


@pytest.fixture(autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.getfixturevalue("at_once"):
        monkeypatch.setattr(archive_json, "_SMALL_TEXT", -1)


@FORMS
@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("HoodieCommitMetadata", PLAIN),
        ("HoodieCommitMetadata", {}),
        ("HoodieCommitMetadata", {"partitionToWriteStats": None, "extraMetadata": None, "compacted": True}),
        ("HoodieCommitMetadata", {"partitionToWriteStats": {}, "extraMetadata": {}}),
        ("HoodieReplaceCommitMetadata", {**PLAIN, "partitionToReplaceFileIds": {"p": ["a", "b"], "q": []}}),
    ],
)
def test_the_datum_is_what_a_general_avro_writer_gives(name: str, document: dict[str, Any], at_once: bool) -> None:
    kind = parsed_type(name)
    sink = io.BytesIO()
    fastavro.schemaless_writer(sink, kind, {**document, "version": None})
    datum = commit_datum(name, json.dumps(document, indent=2).encode())
    assert fastavro.schemaless_reader(io.BytesIO(datum), kind, None) == fastavro.schemaless_reader(
        io.BytesIO(sink.getvalue()), kind, None
    )
    assert datum == sink.getvalue()


@FORMS
@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b'"text"', b"{", b'{"a": 1} more', b"\xff", b'{"compacted": "\xff"}', b'{"operationType": 5}',
        b'{"partitionToWriteStats": []}', b'{"partitionToWriteStats": {"p": [1]}}',
        b'{"partitionToWriteStats": {"p": [null]}}', b'{"partitionToWriteStats": {"p": [{"fileId": 5}]}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": "many"}]}}', b'{"extraMetadata": {"schema": 5}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": 9223372036854775808}]}}', b'{"extraMetadata": 5}',
        b'{"extraMetadata": []}', b'{"partitionToWriteStats": {"p": [{"logFiles": "text"}]}}',
        b'{"partitionToWriteStats": {"p": ""}}', b'{"partitionToWriteStats": 0}',
    ],
)  # fmt: skip
def test_what_is_no_such_metadata_is_an_error(text: bytes, at_once: bool) -> None:
    with pytest.raises((ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError)):
        commit_datum("HoodieCommitMetadata", text)
