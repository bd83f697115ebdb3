"""Delete blocks: keys to remove, each with the ordering value of the delete.

The content is an int32 content version, an int32 length and so many bytes (`HoodieDeleteBlock`). Version 3 holds one
Avro datum. Versions 1 and 2, of releases before 0.13, hold Java objects that Kryo serialised.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.delete_avro import decode_delete_list
from lakebed.formats.hudi.codec.delete_kryo import decode_delete_objects
from lakebed.kernel.decoding import RESTORE
from lakebed.kernel.scratch import Scratch

_HEAD = struct.Struct(">ii")


def decode_deletes(content: bytes | memoryview, scratch: Scratch) -> pa.Table:
    """The deletes of a block, one row each, in order.

    Columns: `record_key` and `partition_path` (string), `ordering_branch` (int8, an OrderingBranch). Then per branch
    that occurs, except NULL, a column named by `ordering_column` with its values, null in rows of other branches.
    `ordering_array`, for several ordering fields, is a list of structs: `branch` (int8), and per branch that occurs
    anywhere a field named by its kind (long, string, ...), null for other branches.

    Raises CorruptError for bytes that are not a delete block, UnsupportedError for an unknown content version or an
    unknown Java class of ordering values.
    """
    view = memoryview(content)
    if len(view) < _HEAD.size:
        raise CorruptError("a delete block is too short for its version and length", todo=RESTORE)
    version, length = _HEAD.unpack_from(view)
    body = view[_HEAD.size :]
    if version not in (1, 2, 3):
        raise UnsupportedError(
            f"the delete block has content version {version}",
            why="lakebed reads versions 1 to 3",
            todo="Compact the table with the Hudi release that wrote it, then read it again",
        )
    if length != len(body):
        raise CorruptError(
            "bad length of a delete block", why=f"it says {length} bytes, there are {len(body)}", todo=RESTORE
        )
    return decode_delete_list(body, scratch) if version == 3 else decode_delete_objects(body)
