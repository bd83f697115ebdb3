"""Which commits of a range or a stream bring rows, by the options that pass over some.

Rules: `filterInstantsAsPerUserConfigs` of Hudi's `IncrementalQueryAnalyzer`.
"""

from __future__ import annotations

from lakebed.formats.hudi.codec.metadata import CommitMetadata
from lakebed.formats.hudi.options import (
    CDC,
    CDC_FROM_CHANGELOG,
    SKIP_CLUSTERING,
    SKIP_COMPACTION,
    SKIP_INSERT_OVERWRITE,
)
from lakebed.formats.hudi.read.state import TableState
from lakebed.kernel.options import Options

_OVERWRITES = ("INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE")


def brings_rows(state: TableState, options: Options, commit: CommitMetadata) -> bool:
    """Whether a commit counts as one that brings rows: table services that are skipped do not."""
    operation = commit.operation
    if options[CDC] and waits_for_compaction(state, options):
        return operation == "COMPACT" or any(not stat.is_log for stat in commit.stats)
    if operation in ("COMPACT", "LOG_COMPACT"):
        return not (state.config.merge_on_read and options[SKIP_COMPACTION])
    if operation == "CLUSTER":
        return not options[SKIP_CLUSTERING]
    return not is_skipped_overwrite(options, commit)


def is_skipped_overwrite(options: Options, commit: CommitMetadata) -> bool:
    """Whether a commit is an insert overwrite whose rows are not wanted."""
    return options[SKIP_INSERT_OVERWRITE] and commit.operation in _OVERWRITES


def waits_for_compaction(state: TableState, options: Options) -> bool:
    """Whether the changes of log files come with their compaction."""
    return bool(state.config.merge_on_read and options[CDC_FROM_CHANGELOG])


def just_before(time: str) -> str:
    """The last time before a time of digits; "" and other texts are as they are."""
    return str(int(time) - 1).zfill(len(time)) if time.isdigit() and int(time) else time
