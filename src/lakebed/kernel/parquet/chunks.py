"""Column chunks of a Parquet file, fetched from a remote store before Arrow reads them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq


def fetch_chunks(
    source: pa.NativeFile, metadata: pq.FileMetaData, groups: Sequence[int] | None, leaves: Sequence[int]
) -> None:
    """Say that the chunks of these leaf columns of these row groups (None: of all) are going to be read, in this order.

    A remote file of `Store.open_input` fetches them ahead, near ones in one request. For other files it does nothing.
    """
