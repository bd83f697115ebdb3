"""How a rewrite of delete files runs on an engine and is committed: both kinds of it write delete files in tasks, and
put them in place of old ones in one REPLACE snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import CommitUnknownError, LakebedError
from lakebed.formats.iceberg.catalog.operations import TableOperations
from lakebed.formats.iceberg.commit.kinds import Replace, commit
from lakebed.formats.iceberg.commit.options import CommitOptions
from lakebed.formats.iceberg.data_files import DeleteFile
from lakebed.formats.iceberg.files import Files
from lakebed.kernel.engine import Engine


@dataclass(frozen=True, slots=True)
class NewDeletes:
    """The new delete files of a task, and the deletion vectors that they replace. After an error there are none."""

    files: list[DeleteFile] = field(default_factory=list)
    replaced: list[DeleteFile] = field(default_factory=list)
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Replacement:
    """The commit of a rewrite of delete files, made from the snapshot `start`."""

    operations: TableOperations
    start: int
    branch: str
    options: Mapping[str, str]

    def run(
        self, engine: Engine, runner: Callable[[Any], NewDeletes], tasks: Sequence[Any], removed: Sequence[DeleteFile]
    ) -> tuple[str, list[DeleteFile]]:
        """Run the tasks, and put what they write in place of `removed`. Returns the snapshot's id and the new files.

        When a task or the commit fails, no new file stays. CommitConflictError when others changed the same files.
        """
        files = self.operations.files
        written: list[DeleteFile] = []
        gone = list(removed)
        failure: Exception | None = None
        try:
            for result in engine.map(runner, tasks):
                written += result.files
                gone += result.replaced
                failure = failure or result.error
            if failure is not None:
                raise failure
        except BaseException:
            remove_delete_files(files, written)
            raise
        try:
            kind = Replace(self.start, tuple(gone), (), tuple(written))
            done = commit(self.operations, kind, CommitOptions(self.branch, properties=self.options))
        except CommitUnknownError:
            raise
        except Exception:  # after an interrupt the outcome is unknown: orphan-file removal cleans up any leftovers
            remove_delete_files(files, written)
            raise
        return done.instant, written


def remove_delete_files(files: Files, written: Iterable[DeleteFile]) -> None:
    """Remove new delete files, as far as the store allows; orphan-file removal cleans up any leftovers."""
    try:
        files.delete_many({file.path for file in written})
    except (LakebedError, OSError):
        return
