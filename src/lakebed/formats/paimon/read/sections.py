"""Files of a bucket grouped into sections whose key ranges do not overlap, so that each is merged alone.

Rule: Paimon's IntervalPartition.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import DataType


def sections(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[tuple[DataFileMeta, ...]]:
    """The sections in key order; within one, files keep the order given.

    Where a range begins or ends at NaN there is one section: Paimon's comparison finds NaN equal to every number, so
    the order of keys in its files is in doubt.
    """
    ranged = [
        (decode_row(without_arity(file.min_key), key_types), decode_row(without_arity(file.max_key), key_types), place)
        for place, file in enumerate(files)
    ]
    if any(value != value for low, high, _ in ranged for value in (*low, *high)):
        return [tuple(files)]
    made: list[list[int]] = []
    reach = None
    for low, high, place in sorted(ranged):
        if reach is None or low > reach:
            made.append([])
            reach = high
        else:
            reach = max(reach, high)
        made[-1].append(place)
    return [tuple(files[place] for place in sorted(places)) for places in made]
