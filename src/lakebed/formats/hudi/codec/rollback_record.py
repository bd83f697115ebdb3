"""What a rollback leaves behind: the record of what it did, and the command blocks that hide the blocks of an instant.

The table and its metadata table are rolled back in different ways, and say so alike.

Rules: Hudi's `RollbackUtils`, `BaseRollbackHelper`, `HoodieCommandBlock`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import write_block
from lakebed.formats.hudi.codec.plans import InstantInfo, RollbackMetadata, RollbackPartitionMetadata, RollbackRequest

_TOKEN = "1-0-1"
"""The write token of log files that rollbacks make."""
_ROLLBACK_COMMAND = "0"


class RollbackRecord:
    """Collects what a rollback does, request by request."""

    def __init__(self) -> None:
        self._parts: dict[str, RollbackPartitionMetadata] = {}

    def add(self, done: RollbackRequest, blocks: Mapping[str, int] = {}, logs: Mapping[str, int] = {}) -> None:
        """The files of a request are gone, and `blocks` are the log files with command blocks: their sizes by their
        locations. `logs` are those of log files that such a block takes blocks back in."""
        path = done.partition_path
        before = self._parts.get(path, RollbackPartitionMetadata(partition_path=path))
        self._parts[path] = RollbackPartitionMetadata(
            partition_path=path,
            success_delete_files=(*before.success_delete_files, *done.files_to_be_deleted),
            rollback_log_files={**(before.rollback_log_files or {}), **blocks},
            log_files_from_failed_commit={**(before.log_files_from_failed_commit or {}), **logs},
        )

    def metadata(self, instant: str, undone: InstantInfo, milliseconds: int = 0) -> RollbackMetadata:
        """The record of the rollback `instant`, which took `undone` back."""
        return RollbackMetadata(
            start_rollback_time=instant,
            time_taken_in_millis=milliseconds,
            total_files_deleted=sum(len(part.success_delete_files) for part in self._parts.values()),
            commits_rollback=(undone.commit_time,),
            partition_metadata=self._parts,
            instants_rollback=(undone,),
        )


def command_block(instant: str, undone: str) -> bytes:
    """The log block by which the rollback `instant` takes back the blocks of the instant `undone` before it."""
    headers = {
        HeaderKey.INSTANT_TIME: instant,
        HeaderKey.TARGET_INSTANT_TIME: undone,
        HeaderKey.COMMAND_BLOCK_TYPE: _ROLLBACK_COMMAND,
    }
    return write_block(BlockKind.COMMAND, headers, b"")


def command_file(request: RollbackRequest, version: int) -> str:
    """The name of the log file that holds the command block which a request asks for."""
    return f".{request.file_id}_{request.latest_base_instant}.log.{version}_{_TOKEN}"
