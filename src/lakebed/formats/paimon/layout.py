"""Names and paths of a Paimon table: what a file is called and where it lies.

Rules: Paimon's FileStorePathFactory and PartitionPathUtils. A branch has its own schemas, snapshots and tags under
`branch/branch-NAME`; data, manifests and index files are the main table's.
"""

from __future__ import annotations

import datetime
import itertools
import re
import uuid
from collections.abc import Sequence
from typing import Any

from lakebed.formats.paimon.codec.types import DataField, DataType, timestamp_unit

MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
STAGING_FOLDER = ".lakebed/staging"
"""Where rows of writes under way wait. lakebed's own; Paimon's engines pass it over."""
_EPOCH = datetime.datetime(1970, 1, 1)
_DEFAULT_PARTITION = "__DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{}\[\]^]""")


def branch_prefix(branch: str) -> str:
    """The folder of a branch's own metadata, with its slash; "" for the main branch."""
    return "" if branch in ("", MAIN_BRANCH) else f"branch/branch-{branch}/"


def schema_path(branch: str, schema_id: int) -> str:
    """The path of a schema file."""
    return f"{branch_prefix(branch)}schema/schema-{schema_id}"


def snapshot_path(branch: str, snapshot_id: int) -> str:
    """The path of a snapshot file."""
    return f"{branch_prefix(branch)}snapshot/snapshot-{snapshot_id}"


def tag_path(branch: str, name: str) -> str:
    """The path of a tag."""
    return f"{branch_prefix(branch)}tag/tag-{name}"


def manifest_path(name: str) -> str:
    """The path of a manifest, manifest list or index manifest."""
    return f"manifest/{name}"


def index_path(name: str) -> str:
    """The path of an index file."""
    return f"index/{name}"


def statistics_path(name: str) -> str:
    """The path of a statistics file."""
    return f"statistics/{name}"


def bucket_folder(partition_folder: str, bucket: int) -> str:
    """The folder of a bucket; `partition_folder` is "" or ends with a slash."""
    return f"{partition_folder}bucket-{'postpone' if bucket == POSTPONE_BUCKET else bucket}"


def partition_folder(
    fields: Sequence[DataField], values: Sequence[Any], default_name: str = _DEFAULT_PARTITION, legacy_name: bool = True
) -> str:
    """`k1=v1/k2=v2/` for the plain values of a partition, "" for none.

    Null, empty and blank texts all go to the default name, so two partitions can share a folder.
    """
    made = ""
    for field, value in zip(fields, values, strict=True):
        text = default_name if value is None else java_text(value, field.type, legacy_name)
        made += f"{_escape(field.name)}={_escape(text if text.strip() else default_name)}/"
    return made


def java_text(value: Any, kind: DataType, legacy: bool = True) -> str:
    """A plain value as Java's `toString` of Paimon's internal value (legacy), else as a cast to a text."""
    match kind.root:
        case "BOOLEAN":
            return "true" if value else "false"
        case "FLOAT" | "DOUBLE":
            return java_double(value)
        case "DATE" if not legacy:
            return (_EPOCH + datetime.timedelta(days=value)).date().isoformat()
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return _timestamp_text(value, kind, legacy)
        case "DECIMAL":
            return f"{value:f}"
        case "BINARY" | "VARBINARY":
            return bytes(value).decode("utf-8", "replace")
    return str(value)


def java_double(value: float) -> str:
    """A float as Java's `Double.toString`."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(float(value))
        return text if "e" not in text else f"{value:f}"
    mantissa, _, exponent = f"{float(value):.17e}".partition("e")
    digits = repr(float(value)).replace("-", "").partition("e")[0].replace(".", "").strip("0") or "0"
    mantissa = f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}"
    return f"{mantissa}E{int(exponent)}"


def _timestamp_text(value: int, kind: DataType, legacy: bool) -> str:
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[timestamp_unit(kind)]
    seconds, fraction = divmod(value, per_second)
    moment = _EPOCH + datetime.timedelta(seconds=seconds)
    nanos = fraction * (10**9 // per_second)
    digits = f"{nanos:09d}"
    if legacy:
        text = moment.strftime("%Y-%m-%dT%H:%M").rjust(16, "0")
        if moment.second or nanos:
            text += f":{moment.second:02d}"
        if nanos:
            text += "." + (
                digits[:3] if digits.endswith("000000") else digits[:6] if digits.endswith("000") else digits
            )
        return text
    text = moment.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
    return f"{text}.{digits[: kind.precision]}" if kind.precision else text


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


class NameFactory:
    """New file names of one writer or committer: one random part, and a number that counts up."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._random, self._numbers = prefix, str(uuid.uuid4()), itertools.count()

    def __call__(self, suffix: str = "") -> str:
        """The next name."""
        # next() of a count is safe beside other threads
        return f"{self._prefix}{self._random}-{next(self._numbers)}{suffix}"

    def under(self, prefix: str) -> NameFactory:
        """The same numbers under another prefix."""
        made = NameFactory(prefix)
        made._random, made._numbers = self._random, self._numbers
        return made
