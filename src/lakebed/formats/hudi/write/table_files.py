"""The newest file slices of partitions, for a write: each partition is listed once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakebed.formats.hudi.read.partitions import list_named
from lakebed.formats.hudi.read.state import TableState
from lakebed.formats.hudi.slices import FileSlice, live_slices
from lakebed.kernel.files import FileInfo


class TableFiles:
    """The files of a table that a write sees: those of one view of the timeline."""

    def __init__(self, state: TableState) -> None:
        self.state = state
        self.view = state.view()
        self._slices: dict[str, list[FileSlice]] = {}

    def slices(self, partitions: Iterable[str]) -> dict[str, Sequence[FileSlice]]:
        """The slices of some partitions."""
        wanted = list(dict.fromkeys(partitions))
        missing = [partition for partition in wanted if partition not in self._slices]
        if missing:
            written = self.state.written(self.view)
            for partition, files in list_named(self.state.store, missing).items():
                self._slices[partition] = live_slices(partition, files, self.view, written, self.state.was_replaced)
        return {partition: self._slices[partition] for partition in wanted}

    def all_slices(self) -> dict[str, Sequence[FileSlice]]:
        """The slices of all partitions: of the metadata table's listing where that is certain, else of one walk."""
        written = self.state.written(self.view)
        for partition, files in self._listed().items():
            self._slices[partition] = live_slices(partition, files, self.view, written, self.state.was_replaced)
        return dict(sorted(self._slices.items()))

    def partitions(self) -> list[str]:
        """All partitions of the table."""
        return sorted(self._listed())

    def _listed(self) -> Mapping[str, Sequence[FileInfo]]:
        commits = self.state.commits(self.view).values()
        return self.state.list_partitions({stat.partition for commit in commits for stat in commit.stats})
