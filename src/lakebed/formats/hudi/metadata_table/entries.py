"""The records of a part of the metadata table as whole columns, oldest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakebed.formats.hudi.codec.delete import decode_deletes
from lakebed.formats.hudi.metadata_table.opened import Image, MetadataTable
from lakebed.formats.hudi.slices import FileSlice
from lakebed.kernel.arrays import one_chunk
from lakebed.kernel.avro.columns import Choice, decode_datums
from lakebed.kernel.decoding import parsed_json
from lakebed.kernel.scratch import Scratch

_MEMORY = Scratch()


@dataclass(frozen=True, slots=True)
class Entries:
    """Records of one file or log block: their keys, and their values as Avro datums of `schema`. Without `values` the
    keys are deleted."""

    keys: pa.Array
    values: pa.Array | None
    schema: str = ""

    def only(self, wanted: pa.Array) -> Entries:
        """Some of the records, by a mask."""
        values = self.values.filter(wanted) if self.values is not None else None
        return Entries(self.keys.filter(wanted), values, self.schema)

    def decoded(self, kind: str) -> Any:
        """The field of the record that holds one kind of metadata, in all records; None where they are deleted, or are
        not of that kind."""
        if self.values is None:
            return None
        choice: Choice = decode_datums(self.values, _parsed(self.schema))[kind]
        return choice.values[1] if len(choice.rows[1]) == len(self.keys) else None


def entries_of(table: MetadataTable, part: str, prefixes: Sequence[bytes] | None = None) -> Iterator[Entries]:
    """All records of a part, file group by file group, or those whose keys begin with one of `prefixes`, with others
    beside them."""
    for file_slice in table.slices(part):
        yield from entries_in(table, file_slice, prefixes)


def entries_in(
    table: MetadataTable, file_slice: FileSlice, prefixes: Sequence[bytes] | None = None
) -> Iterator[Entries]:
    """The entries of one file group, as `entries_of` gives them."""
    for image in table.images(file_slice):
        if image.hfile is None:
            yield Entries(_deleted(image), None)
        else:
            entries = image.hfile.scan() if prefixes is None else image.hfile.starting(prefixes)
            yield Entries(one_chunk(entries["key"]), one_chunk(entries["value"]), image.schema)


def keyed_entries(table: MetadataTable, file_slice: FileSlice, keys: Sequence[bytes]) -> Iterator[Entries]:
    """The records of one file group with these keys, and others beside them."""
    for image in table.images(file_slice):
        yield entries_around(image, keys)


def entries_around(image: Image, keys: Sequence[bytes]) -> Entries:
    """The records of an image with these keys, and others beside them."""
    if image.hfile is None:
        return Entries(_deleted(image), None)
    entries = image.hfile.around(keys)
    return Entries(one_chunk(entries["key"]), one_chunk(entries["value"]), image.schema)


def entries_of_image(image: Image) -> Entries:
    """All records of an image."""
    if image.hfile is None:
        return Entries(_deleted(image), None)
    entries = image.hfile.scan()
    return Entries(one_chunk(entries["key"]), one_chunk(entries["value"]), image.schema)


def _deleted(image: Image) -> pa.Array:
    keys = one_chunk(decode_deletes(image.deletes, _MEMORY)["record_key"]).drop_null()
    return keys.cast(pa.string()).cast(pa.binary())


@lru_cache(maxsize=16)
def _parsed(schema: str) -> Any:
    return parsed_json(schema)
