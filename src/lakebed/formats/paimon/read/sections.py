"""Groups the files of a bucket into sections whose key ranges do not overlap, so that each section is merged alone.

Rule: Paimon's IntervalPartition.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakebed.formats.paimon.codec.binary_row import decode_row, without_arity
from lakebed.formats.paimon.codec.manifest import DataFileMeta
from lakebed.formats.paimon.codec.types import DataType


def sections(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[tuple[DataFileMeta, ...]]:
    """The sections in key order. Within a section, files keep the order given."""
    return [tuple(files[place] for place in places) for places in overlapping(files, key_types)]


def overlapping(files: Sequence[DataFileMeta], key_types: Sequence[DataType]) -> list[list[int]]:
    """The sections in key order, each as the ascending places of its files.

    If any key range begins or ends at NaN, all files form one section: Paimon's comparison treats NaN as equal to every
    number, so the order of keys in such files is not reliable.
    """
    ranged = [
        (decode_row(without_arity(file.min_key), key_types), decode_row(without_arity(file.max_key), key_types), place)
        for place, file in enumerate(files)
    ]
    if any(value != value for low, high, _ in ranged for value in (*low, *high)):
        return [[*range(len(files))]]
    groups: list[list[int]] = []
    reach = None
    for low, high, place in sorted(ranged):
        if reach is None or low > reach:
            groups.append([])
            reach = high
        else:
            reach = max(reach, high)
        groups[-1].append(place)
    return [sorted(places) for places in groups]
