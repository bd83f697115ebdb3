"""Column chunks of a Parquet file, fetched from a remote store before Arrow reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.kernel.files.remote_file import RemoteInput


def fetch_chunks(
    source: pa.NativeFile, metadata: pq.FileMetaData, groups: Sequence[int] | None, leaves: Sequence[int]
) -> None:
    """Say that the chunks of these leaf columns of these row groups (None: of all) are going to be read, in this order.

    A remote file of `Store.open_input` fetches them ahead, near ones in one request. For other files it does nothing.
    """
    if isinstance(source, RemoteInput):
        source.file.announce(_ranges(metadata, range(metadata.num_row_groups) if groups is None else groups, leaves))


def _ranges(metadata: pq.FileMetaData, groups: Sequence[int], leaves: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The bytes [start, stop) of each chunk: its dictionary page, where it has one, comes first."""
    for group in groups:
        of_group = metadata.row_group(group)
        for leaf in leaves:
            chunk = of_group.column(leaf)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < start:
                start = chunk.dictionary_page_offset
            yield start, start + chunk.total_compressed_size
