"""The files that tell other systems of a table's tags, with `tag.create-success-file`.

Rules: Paimon's SuccessFileTagCallback and SuccessFile. `tag/tag-success-file/NAME_SUCCESS` is JSON with two times in
milliseconds since 1970, and goes with the tag.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from lakebed.formats.paimon.codec.success_json import success_json
from lakebed.formats.paimon.layout import branch_prefix
from lakebed.formats.paimon.snapshot import History
from lakebed.kernel import clock


@dataclass(frozen=True, slots=True)
class SuccessFile:
    """A tag callback that writes and removes the file of a tag."""

    history: History

    def notify_creation(self, tag: str, snapshot_id: int) -> None:
        """Write the file of a new tag. One that is there keeps its time of creation."""
        store, path, before = self.history.store, self._path(tag), None
        with suppress(FileNotFoundError):
            before = store.read(path)
        store.write(path, success_json(before, clock.now_ms()))

    def notify_deletion(self, tag: str) -> None:
        """Remove the file of a tag that went."""
        self.history.store.delete(self._path(tag))

    def _path(self, tag: str) -> str:
        return f"{branch_prefix(self.history.branch)}tag/tag-success-file/{tag}_SUCCESS"
