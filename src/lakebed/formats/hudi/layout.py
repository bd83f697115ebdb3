"""Names and paths of a Hudi table, and what they say.

Rules: Hudi's `FSUtils` (base and log file names), `HoodieInstant` with its file name parsers of timeline layout 1 and
2, `PartitionPathEncodeUtils` (escaping).
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from lakebed.kernel.files import FileInfo
from lakebed.kernel.options import is_number

HOODIE = ".hoodie"
"""The folder of the table's metadata."""
HEARTBEATS = f"{HOODIE}/.heartbeat"
"""One file per writer, which says that it is alive."""
INSTANT_FORMAT = "%Y%m%d%H%M%S%f"
"""An instant time as `strftime` makes it; Hudi's have 17 of these digits (milliseconds), old ones 14 (seconds)."""
_SECONDS = "%Y%m%d%H%M%S"
HASHING_METADATA = f"{HOODIE}/.bucket_index/consistent_hashing_metadata"
"""The folder of the buckets of consistent hashing: `<partition>/<instant>.hashing_meta`."""
BUCKET_RULES = f"{HOODIE}/.bucket_index/partition_bucket_index_meta/configs"
"""The folder of numbers of buckets by partition: `<instant>.hashing_config`."""
METADATA_BOOTSTRAP = "00000000000001"
"""The instant of a bootstrap that wrote skeletons: base files with only the meta columns, whose other columns are in
files of another table. A bootstrap of full records has 00000000000002."""
COMMIT_TIME, RECORD_KEY, PARTITION_PATH = "_hoodie_commit_time", "_hoodie_record_key", "_hoodie_partition_path"
META_COLUMNS = (COMMIT_TIME, "_hoodie_commit_seqno", RECORD_KEY, PARTITION_PATH, "_hoodie_file_name")
"""The meta columns, in their order before the user's columns."""
PARTITION_METADATA = ".hoodie_partition_metadata"
"""A folder with this file, or the same name with a data file's suffix, is a partition."""
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The folder name of a null or empty partition value."""
OLD_NULL_PARTITION = "default"
"""The folder name of a null or empty value in releases before 0.12. Hudi's upgrade to table version 5 renames such
folders, and from then on `default` is a value like any other."""

_LOG = re.compile(r"\.(.+)_(\d+)\.log\.(\d+)(?:_(\d+-\d+-\d+))?(\.cdc)?")
_BASE = re.compile(r"(.+?)_(\d+-\d+-\d+)_(\d+)\.(parquet|orc|hfile|lance)")

ACTIONS = frozenset(
    {
        "commit",
        "deltacommit",
        "replacecommit",
        "compaction",
        "logcompaction",
        "clustering",
        "clean",
        "rollback",
        "savepoint",
        "restore",
        "indexing",
        "schemacommit",
    }
)
COMPLETES_AS = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
"""Actions whose completed file has another action's name."""
WITHDRAWN = b"withdrawn"
"""The content of the outcome file of an instant that was withdrawn."""
_OUTCOME = ".outcome"
WRITES = frozenset({"commit", "deltacommit", "replacecommit", "compaction", "logcompaction", "clustering"})
"""Actions that add or replace data files."""
_KINDS = {
    "inflight": ("commit", "inflight"),
    **{action: (action, "completed") for action in ACTIONS},
    **{f"{action}.{state}": (action, state) for action in ACTIONS for state in ("requested", "inflight")},
}
"""(action, state) by what follows the first dot of a state file's name."""


class BaseFile(NamedTuple):
    """A base file. `instant` is the commit that wrote it, `token` the write token: the attempt of the task."""

    instant: str
    token: str
    name: str
    size: int
    suffix: str


class LogFile(NamedTuple):
    """A log file. `instant` is the base instant of its file slice (table version 6 and older), or the delta commit that
    wrote it (8 and later)."""

    instant: str
    version: int
    token: str
    cdc: bool
    name: str
    size: int


class StateFile(NamedTuple):
    """One file of the active timeline. `state` is requested, inflight or completed; `completed` is the completion time
    in its name, "" in layout 1, which has none."""

    time: str
    completed: str
    action: str
    state: str
    name: str


def file_path(partition: str, name: str) -> str:
    """The path inside the table of a file in a partition."""
    return f"{partition}/{name}" if partition else name


def parse_base_name(name: str, size: int = 0) -> tuple[str, BaseFile] | None:
    """(file id, base file) from a file's name, None for any other name."""
    match = _BASE.fullmatch(name)
    return (match[1], BaseFile(match[3], match[2], name, size, match[4])) if match else None


def parse_log_name(name: str, size: int = 0) -> tuple[str, LogFile] | None:
    """(file id, log file) from a file's name, None for any other name."""
    match = _LOG.fullmatch(name)
    if not match:
        return None
    return match[1], LogFile(match[2], int(match[3]), match[4] or "", bool(match[5]), name, size)


@lru_cache(16_384)
def parse_state_name(name: str) -> StateFile | None:
    """A state file of the active timeline by its name, None for any other name.

    An inflight commit is called just `<time>.inflight`. A completed name of layout 2 always has a completion time.
    """
    times, _, rest = name.partition(".")
    kind = _KINDS.get(rest)
    time, has_completed, completed = times.partition("_")
    if kind is None or not is_number(time) or (has_completed and not is_number(completed)):
        return None
    return StateFile(time, completed, *kind, name)


def outcome_file(folder: str, instant: str) -> str:
    """The path of the file that says what became of an instant whose writer lost its lock (`timeline/outcomes.py`)."""
    return f"{folder}/.{instant}{_OUTCOME}"


def outcome_instant(name: str) -> str:
    """The instant that an outcome file is about, by its name; "" for any other name."""
    return name[1 : -len(_OUTCOME)] if name.startswith(".") and name.endswith(_OUTCOME) else ""


def withdrawn_instants(files: Iterable[FileInfo]) -> frozenset[str]:
    """The instants of a timeline's listing that do not count, whatever completed file is there. The size of an outcome
    tells which one it is, so that it need not be read."""
    return frozenset(outcome_instant(info.name) for info in files if info.size == len(WITHDRAWN)) - {""}


def clock_time(instant: str) -> datetime.datetime | None:
    """The clock time of an instant, to the second and in the table's time zone; None for a name that is not a clock
    time."""
    try:
        return datetime.datetime.strptime(instant[:14], _SECONDS)
    except ValueError:
        return None


def write_attempt(token: str) -> tuple[int, ...]:
    """A write token, `<partition>-<stage>-<attempt>`, as numbers by which attempts are ordered; () for no token."""
    return tuple(int(part) for part in token.split("-")) if token else ()


def partition_values(path: str, fields: tuple[str, ...], url_encoded: bool) -> tuple[str | None, ...] | None:
    """The text of each partition field in a partition's path. None where the path does not have one folder per field.

    Hive-style folders (`field=value`) are recognised by their prefix whatever the table's setting, since a table can
    hold both.
    """
    parts = path.split("/") if path else []
    if len(parts) != len(fields):
        if len(fields) != 1:
            return None
        parts = [path]  # one field whose value holds slashes
    values: list[str | None] = []
    for field, part in zip(fields, parts, strict=True):
        text = part.removeprefix(f"{field}=")
        text = unquote(text) if url_encoded else text
        values.append(None if text == NULL_PARTITION else text)
    return tuple(values)


def bucket_rules_file(instant: str) -> str:
    """The path of the numbers of buckets by partition since an instant."""
    return f"{BUCKET_RULES}/{instant}.hashing_config"
