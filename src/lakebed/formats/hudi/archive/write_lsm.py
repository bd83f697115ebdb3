"""Write the archived timeline of layout 2: a Parquet file of level 0, then a manifest that names it, then `_version_`.

Rules: Hudi's `LSMTimelineWriter` and `LSMTimeline`. A data file counts once the manifest that `_version_` points to
names it. What a crash leaves before that is written again, and the next clean-up removes it.

A run that died after publishing leaves instants both archived and active. The next run looks for its instants in the
files whose range they fall in, and writes only those that are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError
from lakebed.formats.hudi.archive.conflicts import claim_name, overtaken
from lakebed.formats.hudi.archive.encode import Row
from lakebed.formats.hudi.archive.plan import Key
from lakebed.formats.hudi.archive.state_files import ActiveInstant
from lakebed.formats.hudi.codec.lsm import (
    MANIFEST_PREFIX,
    VERSION_FILE,
    LsmFile,
    lsm_batch,
    lsm_name,
    lsm_writer,
    manifest_json,
    manifest_version,
    read_instants,
)
from lakebed.formats.hudi.commit.exclusive import StillHeld
from lakebed.formats.hudi.timeline.archive_manifest import History, load_history
from lakebed.kernel.files import Store


def publish(store: Store, folder: str, before: History, files: Sequence[LsmFile], held: StillHeld) -> History:
    """Make `files` the archived timeline, and check that it is.

    CommitConflictError when another archiver published since `before`, or removed what was published here;
    CommitUnknownError when the store does not answer.
    """
    held()
    version = before.version + 1
    path, data = f"{folder}/{MANIFEST_PREFIX}{version}", manifest_json(files)
    if not claim_name(store, path, data, "the archive's manifest"):
        if load_history(store, folder).version != before.version:
            raise overtaken(store, path, "it published its manifest first")
        store.write(path, data)  # a torn manifest, or one whose files are gone: no reader can use it
    elif any((manifest_version(info.name) or 0) > version for info in store.list(folder).files):
        store.delete(path)  # others published so much meanwhile that our number was free again
        raise overtaken(store, path, "it published many manifests meanwhile")
    store.write(f"{folder}/{VERSION_FILE}", str(version).encode())
    after = load_history(store, folder, version)
    if after.version > version:  # another archiver built on ours; we may have set _version_ back
        store.write(f"{folder}/{VERSION_FILE}", str(after.version).encode())
    elif set(after.files) != set(files):
        raise overtaken(store, path, "what was published here is not there any more")
    return History(version, tuple(files))


def archived_keys(store: Store, folder: str, history: History, instants: Sequence[ActiveInstant]) -> set[Key]:
    """Which of these instants are archived already. Only files whose range they fall in are opened. A range that runs
    backwards, as an upgrade can leave it, says nothing: that file is opened too."""
    if not instants:
        return set()
    low, high = min(i.time for i in instants), max(i.time for i in instants)
    times = pa.array([instant.time for instant in instants], pa.string())
    overlapping = [
        file for file in history.files if file.first > file.last or (file.last >= low and file.first <= high)
    ]

    def keys_in(file: LsmFile) -> set[Key]:
        with opened(store, folder, file) as source:
            table = read_instants(source)
        table = table.filter(pc.is_in(table["instantTime"], value_set=times))
        return set(zip(table["instantTime"].to_pylist(), table["action"].to_pylist(), strict=True))

    return set[Key]().union(*store.together(keys_in, overlapping))


def opened(store: Store, folder: str, file: LsmFile) -> pa.NativeFile:
    """A data file of the archive, open for reading."""
    return store.open_input(f"{folder}/{file.name}", file.length if file.length > 0 else None)


@dataclass
class LsmWriter:
    """Writes one file of level 0 from rows in ascending order of time, one row group per call of `add`.

    The file's name needs the last instant, so `last`, the greatest time that may come, is given beforehand. The writer
    holds the rows of one call.
    """

    store: Store
    folder: str
    history: History
    held: StillHeld
    first: str
    last: str
    count: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)
    _writer: pq.ParquetWriter | None = None

    @property
    def name(self) -> str:
        """The name of the file."""
        return lsm_name(self.first, self.last, 0)

    def add(self, rows: list[Row]) -> None:
        """Write the next rows. The list is emptied first, so that their bytes are held only once."""
        if not rows:
            return
        if self._writer is None:
            self.held()
            self._check_name()
            sink = self._stack.enter_context(self.store.open_output(f"{self.folder}/{self.name}"))
            self._writer = self._stack.enter_context(lsm_writer(sink))
        batch = lsm_batch([(row.time, row.completed, row.action, row.metadata, row.plan) for row in rows])
        self.count += len(rows)
        rows.clear()
        self._writer.write_batch(batch)

    def _check_name(self) -> None:
        if any(file.name == self.name for file in self.history.files):
            raise CorruptError(
                "the archive lists a file of the name that this run would write, with other instants in it",
                table=self.store.location,
                file=f"{self.folder}/{self.name}",
                todo="Nothing was changed. Archive once with another hoodie.keep.min.commits, so that the name differs",
            )

    def abort(self, error: BaseException) -> None:
        """End without a file."""
        self._stack.__exit__(type(error), error, error.__traceback__)

    def publish(self) -> History:
        """End the file and publish it. Only then are its instants archived and may be deleted."""
        self._stack.close()
        if self._writer is None:
            return self.history
        path = f"{self.folder}/{self.name}"
        if not self.count:  # no instant could be read, and a file without rows must not be listed
            self.store.delete(path)
            return self.history
        new = LsmFile(self.name, self.store.size(path), self.first, self.last, 0)
        others = [file for file in self.history.files if file.name != new.name]
        history = publish(self.store, self.folder, self.history, [*others, new], self.held)
        with suppress(FileNotFoundError):
            if self.store.size(path) == new.length:
                return history
        raise overtaken(self.store, path, "what was archived here is not there any more")
