"""The Java objects of old delete blocks as Kryo 4 writes them, and no other objects.

Content version 1 (Hudi before 0.11) is a `HoodieKey[]`, version 2 (0.11 and 0.12) a `DeleteRecord[]`. Kryo writes:

- a class as a number: 0 for null; 1 for a class by name, then its number among the names and, the first time, the name;
  n + 2 for the registered class n, which are the primitives' wrappers, String, and from 0.12 on Avro's Utf8;
- a reference before an object that is not a wrapper: 0 for null, 1 for a new object, n + 2 for the n-th object;
- an object of any other class as its fields in the order of their names, a field of a final class without the class.

Each object can refer to any object before it, so the bytes are read one object after another.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
import pyarrow as pa

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.formats.hudi.codec.delete_rows import ORDERING_TYPES, OrderingBranch, delete_table
from lakebed.formats.hudi.codec.kryo import KryoInput
from lakebed.kernel.decoding import RESTORE, decoding_error

_MODEL = "org.apache.hudi.common.model."
_KEYS, _RECORDS = f"[L{_MODEL}HoodieKey;", f"[L{_MODEL}DeleteRecord;"
_REGISTERED = ("int", "String", "float", "boolean", "byte", "char", "short", "long", "double", "void", "Utf8")
_EPOCH = datetime.date(1970, 1, 1)
_COMPACT = "Compact the table with the Hudi release that wrote it, then read it again"
_T = TypeVar("_T")


class _Key(NamedTuple):
    """A `HoodieKey`, with its fields in the order of writing."""

    partition: str | None
    record: str | None


class _Value(NamedTuple):
    """An ordering value."""

    branch: OrderingBranch
    value: Any


_NO_VALUE = _Value(OrderingBranch.NULL, None)


def decode_delete_objects(body: memoryview) -> pa.Table:
    """The deletes, one row each, as `delete_table` makes them. Those of version 1 have no ordering values.

    Raises CorruptError for bytes that are not such objects, UnsupportedError for ordering values of another class.
    """
    # Releases before 0.12 write a Utf8 field by field, and from Avro 1.9 on it has one more field: the hash.
    plain = _Objects(bytes(body), hashed=False)
    deletes = _deletes(plain)
    if plain.met_fields:
        other = _deletes(_Objects(bytes(body), hashed=True))
        if isinstance(deletes, list) and isinstance(other, list) and deletes != other:
            raise UnsupportedError("the ordering values of a delete block can be read in two ways", todo=_COMPACT)
        deletes = deletes if isinstance(deletes, list) else other
    if not isinstance(deletes, list):
        raise deletes
    numbers = np.array([value.branch for _, value in deletes], np.int8)
    values = {
        branch: _typed(branch, [value.value if value.branch == branch else None for _, value in deletes])
        for branch in sorted({value.branch for _, value in deletes} - {OrderingBranch.NULL})
    }
    keys = pa.array([key.record for key, _ in deletes], pa.string())
    return delete_table(keys, pa.array([key.partition for key, _ in deletes], pa.string()), numbers, values)


def _typed(branch: OrderingBranch, values: list[Any]) -> pa.Array:
    """The values of one branch. Decimals keep the scale that they were written with; the table's column has one."""
    try:
        return pa.array(values, None if branch == OrderingBranch.DECIMAL else ORDERING_TYPES[branch])
    except (pa.ArrowInvalid, OverflowError) as error:
        raise UnsupportedError(
            f"ordering values of kind {branch.name} are too large", why=str(error), todo=_COMPACT
        ) from error


def _deletes(objects: _Objects) -> list[tuple[_Key, _Value]] | CorruptError | UnsupportedError:
    """The deletes under one reading of Utf8, or the error why they cannot be decoded."""
    try:
        return objects.deletes()
    except (CorruptError, UnsupportedError) as error:
        return error
    except Exception as error:
        failure = decoding_error(error, "the deletes cannot be decoded")
        if not isinstance(failure, (CorruptError, UnsupportedError)):
            raise failure from error
        return failure


def _no_deletes(why: str) -> NoReturn:
    raise CorruptError("the deletes cannot be decoded", why=why, todo=RESTORE)


class _Objects(KryoInput):
    """Reads the objects. `met` are those that references count, `names` the names of classes, both in order of
    appearance."""

    def __init__(self, data: bytes, hashed: bool) -> None:
        super().__init__(data)
        self.hashed, self.met_fields = hashed, False
        self.met: list[Any] = []
        self.names: list[str] = []

    def deletes(self) -> list[tuple[_Key, _Value]]:
        kind = self.class_name()
        if kind not in (_KEYS, _RECORDS):
            _no_deletes(f"they are {kind or 'null'}, no array of deletes")
        self.referred(list)
        count = self.number() - 1
        if not 0 <= count <= len(self.data) - self.at:
            _no_deletes(f"there cannot be {count} of them")
        read = self.lone_key if kind == _KEYS else self.record
        deletes = [read() for _ in range(count)]
        if self.at != len(self.data):
            _no_deletes(f"{len(self.data) - self.at} bytes are left over")
        return deletes

    def lone_key(self) -> tuple[_Key, _Value]:
        return self.key(), _NO_VALUE

    def record(self) -> tuple[_Key, _Value]:
        self.expect("DeleteRecord")
        earlier = self.referred(tuple)
        if earlier is not None:
            return earlier
        place = len(self.met) - 1
        self.met[place] = delete = (self.key(), self.value())
        return delete

    def key(self) -> _Key:
        self.expect("HoodieKey")
        earlier = self.referred(_Key)
        if earlier is not None:
            return earlier
        place = len(self.met) - 1
        self.met[place] = key = _Key(self.text(), self.text())
        return key

    def value(self) -> _Value:
        name = self.class_name()
        if not name:
            return _NO_VALUE
        if name in _WRAPPERS:
            branch, read = _WRAPPERS[name]
            return _Value(branch, read(self))
        if name == "String":
            return _Value(OrderingBranch.STRING, self.text())
        if name not in _CLASSES:
            raise UnsupportedError(f"a delete has an ordering value of the Java class {name}", todo=_COMPACT)
        earlier = self.referred(_Value)
        if earlier is not None:
            return earlier
        place = len(self.met) - 1
        branch, read = _CLASSES[name]
        self.met[place] = value = _Value(branch, read(self))
        return value

    def text(self) -> str | None:
        if self.data[self.at] == 0:
            self.at += 1
            return None
        earlier = self.referred(str)
        if earlier is not None:
            return earlier
        self.met[-1] = text = self.characters()
        return text

    def referred(self, kind: type[_T]) -> _T | None:
        """The object that a reference points to; None for a new object, which gets the last place in `met`."""
        number = self.number()
        if number == 1:
            self.met.append(None)
            return None
        earlier = self.met[number - 2] if number else None
        if not isinstance(earlier, kind):
            _no_deletes(f"a reference to no {kind.__name__.strip('_').lower()}")
        return earlier

    def class_name(self) -> str:
        """The name of a class, without its package for a registered one; "" for null."""
        number = self.number()
        if number == 0:
            return ""
        if number > 1:
            is_known = number - 2 < len(_REGISTERED)
            return _REGISTERED[number - 2] if is_known else f"registered as {number - 2}"
        name = self.number()
        if name == len(self.names):
            self.names.append(self.characters())
        return self.names[name]

    def expect(self, name: str) -> None:
        actual = self.class_name()
        if actual != _MODEL + name:
            _no_deletes(f"{actual or 'null'} where a {name} is expected")

    def boolean(self) -> bool:
        byte = self.take(1)[0]
        if byte > 1:
            _no_deletes(f"a boolean is {byte}")
        return byte == 1

    def utf8(self) -> str:
        return self.counted().decode()

    def utf8_by_fields(self) -> str:
        self.met_fields = True
        if self.referred(bytes) is not None:
            _no_deletes("two texts share their bytes")
        self.met[-1] = held = self.counted()
        if self.hashed:
            self.signed(32)
        length = self.signed(32)
        if not 0 <= length <= len(held):
            _no_deletes(f"a text of {length} bytes holds {len(held)}")
        decoded, text = held[:length].decode(), self.text()
        if text is not None and text != decoded:
            _no_deletes("a text and its bytes differ")
        return decoded

    def decimal(self) -> Decimal:
        digits = int.from_bytes(self.counted(), "big", signed=True)
        return Decimal(f"{digits}E{-self.signed(32)}")

    def local_date(self) -> int:
        return (datetime.date(self.complement(32), self.take(1)[0], self.take(1)[0]) - _EPOCH).days

    def instant(self) -> int:
        return self.complement(64) * 1_000_000 + self.complement(32) // 1000

    def timestamp(self) -> int:
        """Microseconds; Kryo keeps whole milliseconds only."""
        return self.complement(64) * 1000


_Readers = dict[str, tuple[OrderingBranch, Callable[[_Objects], Any]]]
_WRAPPERS: _Readers = {
    "int": (OrderingBranch.INT, lambda objects: objects.signed(32)),
    "long": (OrderingBranch.LONG, lambda objects: objects.signed(64)),
    "float": (OrderingBranch.FLOAT, lambda objects: objects.fixed("f")),
    "double": (OrderingBranch.DOUBLE, lambda objects: objects.fixed("d")),
    "boolean": (OrderingBranch.BOOLEAN, _Objects.boolean),
}
_CLASSES: _Readers = {
    "Utf8": (OrderingBranch.STRING, _Objects.utf8),
    "org.apache.avro.util.Utf8": (OrderingBranch.STRING, _Objects.utf8_by_fields),
    "java.math.BigDecimal": (OrderingBranch.DECIMAL, _Objects.decimal),
    "java.time.LocalDate": (OrderingBranch.DATE, _Objects.local_date),
    "java.time.Instant": (OrderingBranch.TIMESTAMP, _Objects.instant),
    "java.sql.Timestamp": (OrderingBranch.TIMESTAMP, _Objects.timestamp),
}
