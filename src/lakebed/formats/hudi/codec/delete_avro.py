"""The Avro datum of a delete block: a `HoodieDeleteRecordList`.

It is an array of records {recordKey, partitionPath, orderingVal}, where orderingVal is a union of null and one wrapper
record per type. On disk a wrapper record is just its value, and a union is the branch's number and the value. So each
delete is (key, partition, branch, value). Where all values of a block have one shape on disk, DataFusion decodes the
deletes as records of these four fields. The branches in the result prove that the shape was right, and a record of ours
after the last delete proves that none was left out. Values of several shapes are decoded as a union up to branch 7,
which is all that DataFusion can do. The rest (above all several ordering fields) is decoded record by record.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError
from lakebed.formats.hudi.codec.delete_rows import ORDERING_TYPES, OrderingBranch, delete_table
from lakebed.formats.hudi.codec.delete_schema import BRANCHES, LIST_SCHEMA
from lakebed.kernel.arrays import Int8s
from lakebed.kernel.avro.container import avro_long, read_long
from lakebed.kernel.avro.decode import decode_run
from lakebed.kernel.decoding import RESTORE, decoding
from lakebed.kernel.scratch import Scratch

# A record after the last delete: this text as its key, no partition, and an ordering value of branch 0 or as the shape
# has it. No key of a table looks like that by chance.
_END_KEY = "\x00lakebed end of deletes\x00"
_END = b"\x02" + avro_long(len(_END_KEY)) + _END_KEY.encode() + b"\x00"


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape of values on disk: their branches, the Avro type that reads them, and the bytes of our last record's."""

    branches: tuple[OrderingBranch, ...]
    value: Any
    filler: bytes

    def finish(self) -> bytes:
        return _END + avro_long(self.branches[0]) + self.filler


_SHAPES = (
    _Shape(
        (
            OrderingBranch.INT,
            OrderingBranch.LONG,
            OrderingBranch.DATE,
            OrderingBranch.TIME,
            OrderingBranch.TIMESTAMP,
        ),
        "long",
        b"\x00",
    ),
    _Shape((OrderingBranch.STRING, OrderingBranch.BYTES), "bytes", b"\x00"),
    _Shape((OrderingBranch.DOUBLE,), "double", bytes(8)),
    _Shape((OrderingBranch.FLOAT,), "float", bytes(4)),
    _Shape(
        (OrderingBranch.DECIMAL,),
        {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
        b"\x02\x00",
    ),
    _Shape((OrderingBranch.NULL,), "null", b""),
    _Shape((OrderingBranch.BOOLEAN,), "boolean", b"\x00"),
)


_TEXT = ["null", "string"]
_UNION = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]


@decoding("the deletes cannot be decoded")
def decode_delete_list(body: memoryview, scratch: Scratch) -> pa.Table:
    """The deletes, one row each, as `delete_table` makes them. CorruptError for any other bytes.

    Most writers make the array one block: its count first, and a zero at the end.
    """
    count, start = read_long(body, 0)
    if count == 0 and start == len(body):
        return delete_table(pa.array([], pa.string()), pa.array([], pa.string()), np.empty(0, np.int8), {})
    if 0 < count <= len(body) and body[-1] == 0:
        first = _first_branch(body, start)
        shape = next((shape for shape in _SHAPES if first in shape.branches), None)
        deletes = _decode_shape(body[start:-1], count, shape, scratch) if shape else None
        if deletes is None and first < len(_UNION):
            deletes = _decode_union(body[start:-1], count, scratch)
        if deletes is not None:
            return deletes
    return _decode_singly(body)


def _decode_shape(items: memoryview, count: int, shape: _Shape, scratch: Scratch) -> pa.Table | None:
    """The deletes if all their values have this shape, else None."""
    fields = [_TEXT, _TEXT, "long", shape.value]
    try:
        batch = decode_run(fields, range(4), count + 1, [items, shape.finish()], scratch)
    except CorruptError:
        return None
    keys, partitions, branches, values = batch.columns
    of_shape = pc.all(pc.is_in(branches, value_set=pa.array([int(branch) for branch in shape.branches], pa.int64())))
    if not of_shape.as_py() or keys[count].as_py() != _END_KEY:
        return None
    numbers = branches.slice(0, count).to_numpy().astype(np.int8)
    typed: dict[OrderingBranch, pa.Array] = {}
    for branch in shape.branches:
        if branch != OrderingBranch.NULL and (numbers == branch).any():
            typed[branch] = _only(values.slice(0, count), numbers, branch)
    return delete_table(keys.slice(0, count), partitions.slice(0, count), numbers, typed)


def _decode_union(items: memoryview, count: int, scratch: Scratch) -> pa.Table | None:
    """The deletes if all their values are of the first eight branches, in any mixture, else None."""
    try:
        batch = decode_run([_TEXT, _TEXT, _UNION], range(3), count + 1, [items, _END + b"\x00"], scratch)
    except CorruptError:
        return None
    keys, partitions, union = batch.columns
    if keys[count].as_py() != _END_KEY:
        return None
    numbers = union.type_codes.to_numpy()[:count]
    offsets = union.offsets.to_numpy()[:count]
    typed: dict[OrderingBranch, pa.Array] = {}
    for branch in OrderingBranch:
        of_branch = numbers == branch.value
        if branch != OrderingBranch.NULL and of_branch.any():
            typed[branch] = union.field(branch.value).take(pa.array(offsets, mask=~of_branch))
    return delete_table(keys.slice(0, count), partitions.slice(0, count), numbers, typed)


def _only(values: pa.Array, numbers: Int8s, branch: OrderingBranch) -> pa.Array:
    """The values of one branch in its own type, null in other rows."""
    kept = pc.if_else(pa.array(numbers == branch), values, pa.scalar(None, values.type))
    kind = ORDERING_TYPES[branch]
    try:
        return kept.cast(pa.int32()).cast(kind) if kind == pa.date32() else kept.cast(kind)
    except pa.ArrowInvalid as error:
        raise CorruptError(
            f"an ordering value of kind {branch.name} is out of range", why=str(error), todo=RESTORE
        ) from error


def _first_branch(body: memoryview, place: int) -> int:
    """The branch of the first delete's ordering value; -1 if the bytes do not begin with a delete."""
    for _ in range(2):
        branch, place = read_long(body, place)
        if branch == 1:
            length, place = read_long(body, place)
            if length < 0:
                return -1
            place += length
        elif branch != 0:
            return -1
    return read_long(body, place)[0]


def _decode_singly(body: memoryview) -> pa.Table:
    stream = io.BytesIO(body)
    deletes: Any = fastavro.schemaless_reader(stream, LIST_SCHEMA, None, return_record_name=True)
    rows = deletes["deleteRecordList"]
    if stream.tell() != len(body):
        raise CorruptError(
            "the deletes cannot be decoded", why=f"{len(body) - stream.tell()} bytes are left over", todo=RESTORE
        )
    orderings = [_unwrapped(row["orderingVal"]) for row in rows]
    numbers = np.array([branch for branch, _ in orderings], np.int8)
    present = sorted({branch for branch, _ in orderings} - {OrderingBranch.NULL})
    array_type = _array_type(value for branch, value in orderings if branch == OrderingBranch.ARRAY)
    values = {
        branch: pa.array(
            [_storable(branch, value) if kind == branch else None for kind, value in orderings],
            array_type if branch == OrderingBranch.ARRAY else ORDERING_TYPES[branch],
        )
        for branch in present
    }
    keys = pa.array([row["recordKey"] for row in rows], pa.string())
    return delete_table(keys, pa.array([row["partitionPath"] for row in rows], pa.string()), numbers, values)


def _unwrapped(ordering: Any) -> tuple[OrderingBranch, Any]:
    if ordering is None:
        return OrderingBranch.NULL, None
    name, record = ordering
    branch = BRANCHES[name]
    if branch != OrderingBranch.ARRAY:
        return branch, record["value"]
    wrapped = record["wrappedValues"]
    return (OrderingBranch.NULL, None) if wrapped is None else (branch, [_unwrapped(value) for value in wrapped])


def _array_type(arrays: Iterable[list[tuple[OrderingBranch, Any]]]) -> pa.DataType:
    present = sorted({branch for array in arrays for branch, _ in array} - {OrderingBranch.NULL})
    kinds = [pa.field(branch.name.lower(), ORDERING_TYPES[branch]) for branch in present]
    return pa.list_(pa.struct([pa.field("branch", pa.int8()), *kinds]))


def _storable(branch: OrderingBranch, value: Any) -> Any:
    if branch != OrderingBranch.ARRAY:
        return value
    return [{"branch": int(kind), kind.name.lower(): item} for kind, item in value]
