"""Look up which file group holds each key, and stage the rows again by file group.

One task takes a stretch of key slots, so that all versions of a key meet in it: duplicates are combined, the index says
where each key is, and the rows are staged for the tasks that write files. Keys that no file group holds are staged by
partition, for new files and small ones.

Rules: Hudi's `HoodieWriteHelper` (combine, then tag) and `HoodieIndexUtils` (a delete of a key that is nowhere does
nothing).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakebed.errors import UsageError, counted
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.write.place import StagingPlace
from lakebed.formats.hudi.write.staged_rows import by_partition, deletes_in, rows_of
from lakebed.kernel.arrays import Int64s, from_numpy, to_numpy
from lakebed.kernel.sizing.staging import Grouped, Run, Staged, Stager, StagingLimits, grouped


@dataclass(frozen=True, slots=True)
class Tagged:
    """Rows with the file group that takes each: row i belongs to `groups[codes[i]]`, or to none yet where the code is
    -1."""

    rows: pa.Table
    codes: Int64s
    groups: tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class Tagging:
    """A task of an engine: combines, looks up and stages the rows of one stretch. Picklable.

    `combine` reduces rows to one per key, None where duplicates stay. `tag` looks up the file groups of keys; it may
    drop and add rows. Rows are staged in files of `place`, or travel in the answer as far as `limits` allow.
    """

    place: StagingPlace
    schema: pa.Schema
    combine: Callable[[pa.Table], pa.Table] | None
    tag: Callable[[pa.Table], Tagged] | None
    limits: StagingLimits

    def __call__(self, runs: tuple[Run, ...]) -> Staged | None:
        """The tagged rows, staged; None if no row is left."""
        rows = rows_of(runs, self.place, self.schema)
        if self.combine is not None:
            rows = self.combine(rows)
        if self.tag is None:
            return self._staged(rows, by_partition)
        tagged = _without_lost_deletes(self.tag(rows.combine_chunks()))
        return self._staged(tagged.rows, _ByTag(tagged))

    def _staged(self, rows: pa.Table, group: Callable[[pa.Table], Grouped]) -> Staged | None:
        stager = Stager(self.place, self.place.path(f"{uuid.uuid4()}.arrow"), self.schema, group, self.limits)
        try:
            stager.write(rows)
            return stager.finish()
        except BaseException:
            stager.abort()
            raise


class _ByTag:
    """Groups consecutive runs of tagged rows: by file group, and by partition where a row has none."""

    def __init__(self, tagged: Tagged) -> None:
        self._tagged, self._seen = tagged, 0

    def __call__(self, rows: pa.Table) -> Grouped:
        codes = self._tagged.codes[self._seen : self._seen + len(rows)]
        self._seen += len(rows)
        new = codes < 0
        buckets: list[Hashable] = list(self._tagged.groups)
        if new.any():
            partitions = by_partition(rows)
            codes = np.where(new, partitions.codes + len(buckets), codes)
            buckets += partitions.buckets
        return grouped(codes.astype(np.int64), buckets)


def _without_lost_deletes(tagged: Tagged) -> Tagged:
    """Without the deletes of keys that no file group holds."""
    lost = (tagged.codes < 0) & np.asarray(to_numpy(deletes_in(tagged.rows)))
    if not lost.any():
        return tagged
    return Tagged(tagged.rows.filter(from_numpy(~lost)), tagged.codes[~lost], tagged.groups)


@dataclass(frozen=True, slots=True)
class NewOnly:
    """A lookup for inserts: rows whose keys the table has are left out, or refused. Picklable."""

    lookup: Callable[[pa.Table], Tagged]
    refuses: bool
    table: str

    def __call__(self, rows: pa.Table) -> Tagged:
        """The rows with new keys. UsageError where one is known and `refuses` is set."""
        tagged = self.lookup(rows)
        known = tagged.codes >= 0
        if not known.any():
            return tagged
        if self.refuses:
            key = tagged.rows.column(RECORD_KEY)[int(np.flatnonzero(known)[0])].as_py()
            raise UsageError(
                f"{counted(int(known.sum()), 'row has', 'rows have')} keys that the table has, the first {key!r}",
                table=self.table,
                why="the option hoodie.datasource.insert.dup.policy is fail",
                todo="Leave those rows out, or upsert them",
            )
        return Tagged(tagged.rows.filter(from_numpy(~known)), tagged.codes[~known], tagged.groups)
