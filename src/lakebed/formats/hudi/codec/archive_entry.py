"""Encode a state file of table version 6 and older as its archived record, `HoodieArchivedMetaEntry` in Avro.

Rules: Hudi's `MetadataConversionUtils.createMetaWrapper` of 1.0, which says the payload of each action and state.
"""

from __future__ import annotations

from functools import cache

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.archive_container import check_container, container_datum
from lakebed.formats.hudi.codec.archive_json import avro_text, check_json, commit_datum
from lakebed.formats.hudi.codec.archive_schema import ENTRY, record_types
from lakebed.kernel.avro.container import MAGIC, avro_long
from lakebed.kernel.decoding import decoding

_COMMITS = ("commit", "deltacommit")
_COMPACTIONS = ("compaction", "logcompaction")
_TIME, _TRANSITION = "commitTime", "stateTransitionTime"
_SOME = b"\x02"
"""The branch of a value. Every field of the entry is a union with null first, or with null second and never set."""


def archived_entry(time: str, action: str, state: str, data: bytes) -> bytes:
    """The Avro datum of one state file.

    `action` is the word in the file's name, `state` is requested, inflight or completed, `data` are the file's bytes.
    Hudi takes the time of the state's transition from the file's modification time; here it is the instant's own time,
    since a copy of a table has other file times. Raises CorruptError for bytes that are not such metadata.
    """
    field, payload = _payload(action, state, data)
    if field == "" and state == "completed":
        raise CorruptError(
            f"no archived form of a completed {action} is known",
            instant=time,
            todo="Archive the table with Hudi's own engine",
        )
    frame = _frame(action, state, field)
    values = {
        "": b"",
        _TIME: avro_text(time),
        _TRANSITION: avro_text(time.ljust(17, "0")[:17]),
        field: payload,
    }
    parts: list[bytes] = []
    for constant, name in frame:
        parts += (constant, values[name])
    return b"".join(parts)  # a payload can be large, so it is copied only once


def check_readable(data: bytes) -> None:
    """Raise CorruptError unless a completed state file is whole: JSON, or an Avro container with all its blocks."""
    with decoding("the file holds no metadata"):
        if data.startswith(MAGIC):
            check_container(data)
        else:
            check_json(data)


@cache
def _frame(action: str, state: str, field: str) -> tuple[tuple[bytes, str], ...]:
    """The parts of a record that instants share: pairs of Avro bytes and the field whose value follows them, "" for
    none. `field` is the payload's field, "" without a payload."""
    constants = {"actionType": _SOME + avro_text(action), "actionState": _SOME + avro_text(state.upper())}
    frame: list[tuple[bytes, str]] = []
    before = b""
    for entry_field in record_types()[ENTRY]["fields"]:
        name = entry_field["name"]
        if name in (_TIME, _TRANSITION, field):
            frame.append((before + _SOME, name))
            before = b""
        else:
            before += constants.get(name) or avro_long(entry_field["type"].index("null"))
    return (*frame, (before, ""))


def _payload(action: str, state: str, data: bytes) -> tuple[str, bytes]:
    """(field of the payload, its datum); ("", b"") for a state without a payload."""
    done = state == "completed"
    if not data and not done:
        return "", b""
    if action in _COMMITS:
        return ("", b"") if state == "requested" else ("hoodieCommitMetadata", _commit("HoodieCommitMetadata", data))
    if action == "replacecommit":
        if done:
            return "hoodieReplaceCommitMetadata", _commit("HoodieReplaceCommitMetadata", data)
        if state == "inflight":
            return "HoodieInflightReplaceMetadata", _commit("HoodieCommitMetadata", data)
        return "hoodieRequestedReplaceMetadata", _container("HoodieRequestedReplaceMetadata", data)
    if action in _COMPACTIONS:
        if state == "requested":
            return "hoodieCompactionPlan", _container("HoodieCompactionPlan", data)
        return "", b""
    if action == "clean":
        return (
            ("hoodieCleanMetadata", _container("HoodieCleanMetadata", data))
            if done
            else ("hoodieCleanerPlan", _container("HoodieCleanerPlan", data))
        )
    if action == "rollback" and done:
        return "hoodieRollbackMetadata", _container("HoodieRollbackMetadata", data)
    return "", b""


def _container(name: str, data: bytes) -> bytes:
    with decoding(f"the file holds no {name}"):
        return container_datum(name, data)


def _commit(name: str, data: bytes) -> bytes:
    """The datum of a commit's metadata, from JSON or, in an upgraded table, from an Avro container."""
    if data.startswith(MAGIC):
        return _container(name, data)
    with decoding("the file holds no commit metadata"):
        return commit_datum(name, data)
