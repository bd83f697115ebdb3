"""A piece of a read: what one task reads alone, in order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Split:
    """What every format's split has; the format adds what its reader needs.

    `group` is the file group (Hudi), partition and bucket (Paimon) or data file (Iceberg): splits of one group are read
    in order by one task. `size` is the bytes of the files named, for packing splits into tasks.
    """

    group: str
    size: int
