"""A split: a part of a read that one task reads alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Split:
    """What the splits of all formats have in common. Each format adds what its reader needs.

    `group` names the file group (Hudi), the partition and bucket (Paimon) or the data file (Iceberg). One task reads
    all splits of a group, in order. `size` is the bytes of the split's files, by which splits are packed into tasks.
    """

    group: str
    size: int
