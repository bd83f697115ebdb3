"""Cut a bucket into files whose ranges of sort keys do not overlap (`write.distribution-mode` = range).

The boundaries come from keys that were sampled when the bucket was measured. Its rows are staged a second time, each in
the range that it belongs to. Buckets that fit into one file are left as they are.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from lakebed.kernel.engine import Engine
from lakebed.kernel.sizing.file_counts import even_cuts
from lakebed.kernel.sizing.finalize import FileSize
from lakebed.kernel.sizing.staging import Grouped, Place, Run, Staged, StagedBuckets, Stager, grouped
from lakebed.kernel.sort_keys import boundaries, range_codes, with_ties


@dataclass(frozen=True, slots=True)
class RangeSplitter:
    """A `finalize.Splitter`. `keys` gives the comparable sort keys of rows, `folder` is where rows are staged."""

    place: Place
    folder: str
    schema: pa.Schema
    keys: Callable[[pa.Table], pa.Table]

    def split(
        self, buckets: StagedBuckets, counts: Mapping[int, int], sizes: Mapping[int, FileSize], engine: Engine
    ) -> tuple[dict[int, list[Run]], list[str]]:
        """The runs of each bucket, one per range, and the paths of what was staged."""
        tasks = []
        for at, count in counts.items():
            bounds = boundaries(sizes[at].sample, count)
            cuts = even_cuts(int(buckets.rows[at]), min(count, engine.parallelism)).tolist()
            for start, end in itertools.pairwise(cuts):
                tasks.append(_Part(at, bounds, start, buckets.run(at, start, end)))
        staged = [task for task in engine.map(self._stage, tasks) if task is not None]
        again = StagedBuckets(staged, self.schema)
        runs: dict[int, list[Run]] = {}
        places = {bucket: number for number, bucket in enumerate(again.buckets)}
        for at, count in counts.items():
            numbers = [places[at, part] for part in range(count) if (at, part) in places]
            runs[at] = [again.run(number, 0, int(again.rows[number])) for number in numbers]
        return runs, again.paths

    def _stage(self, part: _Part) -> Staged | None:
        seen = part.first

        def group(rows: pa.Table) -> Grouped:
            nonlocal seen
            keys = with_ties(self.keys(rows), seen)
            seen += len(rows)
            count = len(part.bounds) + 1
            return grouped(range_codes(keys, part.bounds), [(part.bucket, n) for n in range(count)])

        stager = Stager(self.place, f"{self.folder}/{uuid.uuid4()}.arrow", self.schema, group)
        try:
            for batch in part.run.batches(self.place):
                stager.write(batch)
            return stager.finish()
        except BaseException:
            stager.abort()
            raise


@dataclass(frozen=True, slots=True)
class _Part:
    """The rows of one task: consecutive rows of a bucket, of which row `first` is the first."""

    bucket: int
    bounds: pa.Table
    first: int
    run: Run
