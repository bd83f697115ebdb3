"""What lakebed writes of Hudi: a table that it does not serve is refused by name, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import HASHING_METADATA
from lakebed.formats.hudi.merge.rules import check_known, rules_of
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.files import Store

_BUCKET = re.compile(r"0000\d{4}-")
"""How the file id of a bucket begins. A random id does so once in half a million."""


def check_table(store: Store, config: TableConfig, avro: str) -> None:
    """Raise UnsupportedError for a table that lakebed does not write. `avro` is its schema, "" for none."""
    check_known(rules_of(config), store.location)
    reasons = {
        "it has table version 5": config.version < 6,
        "its rows have no meta columns (hoodie.populate.meta.fields is false)": not config.meta_fields,
        "its files leave out the partition columns": config.drops_partition_columns,
        "its partition paths spell dates with slashes": config.slashed_dates,
        f"its base files are {config.base_format}": config.base_format != "PARQUET",
        "nothing says which columns it has": not avro,
        "it has a consistent hashing index": config.merge_on_read and _has_files(store, HASHING_METADATA),
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if why:
        raise UnsupportedError(
            "lakebed does not write this table", table=store.location, why=why, todo="Write it with Hudi's own engine"
        )


def check_groups(slices: Iterable[FileSlice], table: str) -> None:
    """Raise UnsupportedError where file groups are those of a bucket index: other engines would look for a key in its
    bucket only."""
    if any(_BUCKET.match(file_slice.file_id) for file_slice in slices):
        raise UnsupportedError(
            "lakebed does not write this table with the index SIMPLE or BLOOM",
            table=table,
            why="its file groups are buckets of a bucket index",
            todo="Give hoodie.index.type BUCKET and hoodie.bucket.index.num.buckets, as it was written with",
        )


def is_bucket(file_id: str) -> bool:
    """Whether a file group is a bucket of a bucket index."""
    return bool(_BUCKET.match(file_id))


def _has_files(store: Store, folder: str) -> bool:
    listing = store.list(folder)
    return bool(listing.files or listing.folders)
