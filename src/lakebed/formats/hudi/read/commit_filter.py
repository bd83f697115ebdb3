"""Which commits of a range or a stream bring rows. Options can skip table services and insert overwrites.

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
    """Whether a commit counts as one that brings rows. Skipped table services and overwrites do not."""
    operation = commit.operation
    if options[CDC] and waits_for_compaction(state, options):
        return operation == "COMPACT" or any(not stat.is_log for stat in commit.stats)
    if operation in ("COMPACT", "LOG_COMPACT"):
        return not (state.config.merge_on_read and options[SKIP_COMPACTION])
    if operation == "CLUSTER":
        return not options[SKIP_CLUSTERING]
    return not is_skipped_overwrite(options, commit)


def is_skipped_overwrite(options: Options, commit: CommitMetadata) -> bool:
    """Whether a commit is an insert overwrite that the options skip."""
    return options[SKIP_INSERT_OVERWRITE] and commit.operation in _OVERWRITES


def waits_for_compaction(state: TableState, options: Options) -> bool:
    """Whether the changes of log files come with their compaction."""
    return bool(state.config.merge_on_read and options[CDC_FROM_CHANGELOG])
