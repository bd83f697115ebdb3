"""Write HFile images, as Hudi keeps them in base files and log blocks of the metadata table. `hfile.py` reads them.

Data blocks are cut at 1 MiB and compressed with gzip; their index has one level. Index keys have the time stamp and
kind that HBase's reader needs, each block has CRC-32 checksums. So all releases read these files.

Rules: HBase's `HFileWriterImpl` and `HFileBlock.Writer`, Hudi's `HoodieAvroHFileWriter` and `HoodieHFileDataBlock`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.codec.hfile import DATA, FILE_INFO, ROOT, TRAILER_BYTES
from lakebed.kernel.arrays import one_chunk

BLOCK_BYTES = 1 << 20
"""How many bytes of entries make a data block: `hoodie.hfile.block.size`."""
_META = b"METABLKc"
_HEAD = struct.Struct(">8siiqBii")
_ENTRY = np.dtype([("key", ">i4"), ("value", ">i4"), ("row", ">i2")])
_KEY_END = b"\x00" + b"\x7f" + b"\xff" * 7 + b"\x04"
"""What follows the row in a key: no family, the greatest time stamp, and the kind Put."""
_ROW_LENGTH, _MEMSTORE = 2, b"\x00"
_CRC32, _COVERED = 1, 16384
_GZIP = 1
_COMPARATOR = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_VERSION = b"\x03\x00\x00\x03"
"""The minor version, then the major one."""


def write_hfile(
    keys: pa.Array,
    values: pa.Array,
    info: Mapping[str, bytes],
    meta: Mapping[str, bytes] | None = None,
    *,
    block_bytes: int = BLOCK_BYTES,
) -> bytes:
    """An image with these entries: binary arrays, the keys unique and in the order of their bytes.

    `info` are entries of the file info beside those that every file has, `meta` the contents of meta blocks by name.
    """
    image = _Image()
    indexed = image.data_blocks(keys, values, block_bytes)
    named = [(name.encode(), *image.add(_META, content)) for name, content in sorted((meta or {}).items())]
    opened = len(image.data)
    image.add(ROOT, b"".join(_indexed(offset, size, key) for key, offset, size in indexed))
    index_bytes = image.uncompressed_of_last
    image.add(ROOT, b"".join(_indexed(offset, size, name) for name, offset, size in named), chained=opened)
    at = len(image.data)
    image.add(FILE_INFO, _file_info({**_own_info(keys, values), **{k.encode(): v for k, v in info.items()}}))
    first, last = (indexed[0][1], indexed[-1][1]) if indexed else (0, 0)
    numbers = (at, opened, index_bytes, image.uncompressed, len(indexed), len(named), len(keys), 1, first, last)
    return bytes(image.data) + _trailer(numbers)


class _Image:
    def __init__(self) -> None:
        self.data = bytearray()
        self.uncompressed = self.uncompressed_of_last = 0

    def add(self, kind: bytes, content: bytes | memoryview, chained: int = -1) -> tuple[int, int]:
        """Append a block. Its offset and its bytes. `chained` is the offset of the block of its kind before it."""
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(content) + packer.flush()
        whole = _HEAD.size + len(packed)
        checksums = 4 * -(-whole // _COVERED)
        head = _HEAD.pack(kind, len(packed) + checksums, len(content), chained, _CRC32, _COVERED, whole)
        covered = memoryview(head + packed)
        offset = len(self.data)
        self.data += covered
        for start in range(0, whole, _COVERED):
            self.data += struct.pack(">I", zlib.crc32(covered[start : start + _COVERED]))
        self.uncompressed_of_last = len(content)
        self.uncompressed += _HEAD.size + len(content)
        return offset, len(self.data) - offset

    def data_blocks(self, keys: pa.Array, values: pa.Array, block_bytes: int) -> list[tuple[bytes, int, int]]:
        """Append the entries. The first key of each block, its offset and its bytes."""
        if not len(keys):
            return []
        entries = _entries(keys, values)
        bounds = np.frombuffer(entries.buffers()[1], np.int64)[entries.offset : entries.offset + len(entries) + 1]
        content = memoryview(entries.buffers()[2])
        number = np.minimum((bounds[:-1] - bounds[0]) // block_bytes, len(keys))
        starts = [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(keys)]
        blocks, before = [], -1
        for start, end in pairwise(starts):
            offset, size = self.add(DATA, content[int(bounds[start]) : int(bounds[end])], before)
            row = keys[start].as_py()
            blocks.append((struct.pack(">h", len(row)) + row + _KEY_END, offset, size))
            before = offset
        return blocks


def _entries(keys: pa.Array, values: pa.Array) -> pa.LargeBinaryArray:
    """The bytes of each entry, one after the other in one buffer."""
    heads = np.empty(len(keys), _ENTRY)
    rows = pc.binary_length(keys).to_numpy(zero_copy_only=False)
    heads["row"] = rows
    heads["key"] = rows + _ROW_LENGTH + len(_KEY_END)
    heads["value"] = pc.binary_length(values).to_numpy(zero_copy_only=False)
    kind = pa.large_binary()
    fixed = pa.Array.from_buffers(pa.binary(_ENTRY.itemsize), len(keys), [None, pa.py_buffer(heads.tobytes())])
    parts = [fixed.cast(pa.binary()).cast(kind), keys.cast(kind), values.cast(kind)]
    ends = [pa.scalar(text, kind) for text in (_KEY_END, _MEMSTORE, b"")]
    joined = pc.binary_join_element_wise(parts[0], parts[1], ends[0], parts[2], ends[1], ends[2])
    return one_chunk(joined)


def _own_info(keys: pa.Array, values: pa.Array) -> dict[bytes, bytes]:
    count = max(len(keys), 1)
    last = keys[-1].as_py() if len(keys) else b""
    key_bytes = (pc.sum(pc.binary_length(keys)).as_py() or 0) + count * (_ROW_LENGTH + len(_KEY_END))
    return {
        b"KEY_VALUE_VERSION": struct.pack(">i", 1),
        b"MAX_MEMSTORE_TS_KEY": bytes(8),
        b"hfile.AVG_KEY_LEN": struct.pack(">i", key_bytes // count),
        b"hfile.AVG_VALUE_LEN": struct.pack(">i", (pc.sum(pc.binary_length(values)).as_py() or 0) // count),
        b"hfile.CREATE_TIME_TS": bytes(8),
        b"hfile.LASTKEY": struct.pack(">h", len(last)) + last + _KEY_END,
    }


def _indexed(offset: int, size: int, key: bytes) -> bytes:
    return struct.pack(">qi", offset, size) + _hadoop_number(len(key)) + key


def _hadoop_number(number: int) -> bytes:
    """A number that is not negative, as Hadoop's `WritableUtils.writeVLong` writes it."""
    if number <= 127:
        return bytes([number])
    length = (number.bit_length() + 7) // 8
    return bytes([256 - 112 - length]) + number.to_bytes(length, "big")


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _file_info(info: Mapping[bytes, bytes]) -> bytes:
    pairs = (_field(1, _field(1, key) + _field(2, value)) for key, value in sorted(info.items()))
    message = b"".join(pairs)
    return b"PBUF" + _varint(len(message)) + message


def _trailer(numbers: tuple[int, ...]) -> bytes:
    fields = b"".join(_varint(place << 3) + _varint(value) for place, value in enumerate(numbers, 1))
    fields += _field(11, _COMPARATOR) + _varint(12 << 3) + _varint(_GZIP)
    head = b'TRABLK"$' + _varint(len(fields)) + fields
    return head.ljust(TRAILER_BYTES - len(_VERSION), b"\x00") + _VERSION
