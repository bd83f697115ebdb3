"""What lakebed writes of Hudi: a table that it does not serve is refused by name, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakebed.errors import UnsupportedError, UsageError
from lakebed.formats.hudi.codec.schema import arrow_schema
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import HASHING_METADATA
from lakebed.formats.hudi.merge.rules import check_known, rules_of
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.files import Listing, Store

_BUCKET = re.compile(r"0000\d{4}-")
"""How the file id of a bucket begins. A random id does so once in half a million."""


def check_table(config: TableConfig, avro: str, table: str) -> None:
    """Raise UnsupportedError for a table that lakebed does not write. `avro` is its schema, "" for none."""
    check_known(rules_of(config), table)
    reasons = {
        "it has table version 5": config.version < 6,
        "its partition paths spell dates with slashes": config.slashed_dates,
        f"its base files are {config.base_format}": config.base_format != "PARQUET",
        "nothing says which columns it has": not avro,
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if why:
        raise UnsupportedError(
            "lakebed does not write this table", table=table, why=why, todo="Write it with Hudi's own engine"
        )
    config.check_virtual(arrow_schema(avro), table)


def check_engine(store: Store, config: TableConfig, consistent: bool) -> None:
    """Raise UsageError for a table of consistent hashing that a write with another index would break: its keys belong
    to buckets that only metadata name."""
    if not consistent and has_rings(store, config):
        raise UsageError(
            "the table has a consistent hashing index",
            table=store.location,
            why=f"it has a folder {HASHING_METADATA}",
            todo="Give hoodie.index.type BUCKET and hoodie.index.bucket.engine CONSISTENT_HASHING",
        )


def check_groups(slices: Iterable[FileSlice], table: str) -> None:
    """Raise UnsupportedError for a write with another index where file groups are those of a bucket index: other
    engines would look for a key in its bucket only."""
    if has_buckets(slices):
        raise UnsupportedError(
            "this write has another index than the table",
            table=table,
            why="its file groups are buckets of a bucket index, and other writers look for a key in its bucket alone",
            todo="Give hoodie.index.type BUCKET and hoodie.bucket.index.num.buckets, as it was written with",
        )


def check_clustered(slices: Iterable[FileSlice], merge_on_read: bool, table: str) -> None:
    """Raise UnsupportedError for a clustering where file groups are those of a bucket index whose buckets stay."""
    if has_buckets(slices):
        compact = "Compact its logs instead: lakebed.rewrite = compaction. " if merge_on_read else ""
        raise UnsupportedError(
            "a table whose bucket index has a fixed number of buckets cannot be clustered",
            table=table,
            why="each bucket is one file group, where every write looks for its keys, and a clustering would move them",
            todo=f"{compact}For files of another size, write the rows into a new table with another "
            "hoodie.bucket.index.num.buckets, or with hoodie.index.bucket.engine CONSISTENT_HASHING, whose clustering "
            "splits and merges buckets",
        )


def has_buckets(slices: Iterable[FileSlice]) -> bool:
    """Whether file groups are those of a bucket index."""
    return any(_BUCKET.match(file_slice.file_id) for file_slice in slices)


def is_bucket(file_id: str, config: TableConfig) -> bool:
    """Whether a file group is a bucket of a bucket index, as its name or the table's properties say."""
    return bool(_BUCKET.match(file_id)) or config.properties.get("hoodie.index.type", "").upper() == "BUCKET"


def has_rings(store: Store, config: TableConfig) -> bool:
    """Whether a table has the metadata of consistent hashing."""
    listing = store.list(HASHING_METADATA) if config.merge_on_read else Listing((), ())
    return bool(listing.files or listing.folders)
