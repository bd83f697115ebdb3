"""The Java objects of old delete blocks: what Kryo 4 writes of them, and nothing else.

Content version 1 (Hudi before 0.11) is a `HoodieKey[]`, version 2 (0.11 and 0.12) a `DeleteRecord[]`. Kryo writes:

- a class as a number: 0 for null, 1 for a class by name (its number among the names, and at first sight the name),
  n + 2 for the registered class n: the primitives' wrappers, String, and from 0.12 on Avro's Utf8;
- before an object that is no wrapper a reference: 0 for null, 1 for a new object, n + 2 for the object that came n-th;
- an object of any other class as its fields by rising name, a field of a final class without the class.

Each object can refer to any before it, so the bytes are walked one after another.
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
from lakebed.kernel.decoding import decoding_error

_MODEL = "org.apache.hudi.common.model."
_KEYS, _RECORDS = f"[L{_MODEL}HoodieKey;", f"[L{_MODEL}DeleteRecord;"
_REGISTERED = ("int", "String", "float", "boolean", "byte", "char", "short", "long", "double", "void", "Utf8")
_EPOCH = datetime.date(1970, 1, 1)
_COMPACT = "Compact the table with the Hudi release that wrote it, then read it again"
_T = TypeVar("_T")


class _Key(NamedTuple):
    """A `HoodieKey`, its fields in the order in which they are written."""

    partition: str | None
    record: str | None


class _Value(NamedTuple):
    """An ordering value."""

    branch: OrderingBranch
    value: Any


_NO_VALUE = _Value(OrderingBranch.NULL, None)


def decode_delete_objects(body: memoryview) -> pa.Table:
    """The deletes, one row each, as `delete_table` makes them; those of version 1 have no ordering values.

    Raises CorruptError for bytes that are no such objects, UnsupportedError for ordering values of another class.
    """
    # Releases before 0.12 write a Utf8 field by field, and Avro 1.9 gave it one more: the hash.
    plain = _Objects(bytes(body), hashed=False)
    found = _deletes(plain)
    if plain.met_fields:
        other = _deletes(_Objects(bytes(body), hashed=True))
        if isinstance(found, list) and isinstance(other, list) and found != other:
            raise UnsupportedError("the ordering values of a delete block can be read in two ways", todo=_COMPACT)
        found = found if isinstance(found, list) else other
    if not isinstance(found, list):
        raise found
    numbers = np.array([value.branch for _, value in found], np.int8)
    values = {
        branch: _typed(branch, [value.value if value.branch == branch else None for _, value in found])
        for branch in sorted({value.branch for _, value in found} - {OrderingBranch.NULL})
    }
    keys = pa.array([key.record for key, _ in found], pa.string())
    return delete_table(keys, pa.array([key.partition for key, _ in found], pa.string()), numbers, values)


def _typed(branch: OrderingBranch, values: list[Any]) -> pa.Array:
    """Decimals keep the scale that they were written with; the column that they belong to has one."""
    try:
        return pa.array(values, None if branch == OrderingBranch.DECIMAL else ORDERING_TYPES[branch])
    except (pa.ArrowInvalid, OverflowError) as error:
        raise UnsupportedError(
            f"ordering values of kind {branch.name} are too large", why=str(error), todo=_COMPACT
        ) from error


def _deletes(objects: _Objects) -> list[tuple[_Key, _Value]] | CorruptError | UnsupportedError:
    """The deletes under one reading of Utf8, or why there are none."""
    try:
        return objects.deletes()
    except (CorruptError, UnsupportedError) as error:
        return error
    except Exception as error:
        found = decoding_error(error, "the deletes cannot be decoded")
        if not isinstance(found, (CorruptError, UnsupportedError)):
            raise found from error
        return found


def _no_deletes(why: str) -> NoReturn:
    raise CorruptError("the deletes cannot be decoded", why=why)


class _Objects(KryoInput):
    """The objects: `met` are those that references count, `names` those of the classes, both in order of sight."""

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
        one = self.lone_key if kind == _KEYS else self.record
        found = [one() for _ in range(count)]
        if self.at != len(self.data):
            _no_deletes(f"{len(self.data) - self.at} bytes are left over")
        return found

    def lone_key(self) -> tuple[_Key, _Value]:
        return self.key(), _NO_VALUE

    def record(self) -> tuple[_Key, _Value]:
        self.expect("DeleteRecord")
        known = self.referred(tuple)
        if known is not None:
            return known
        place = len(self.met) - 1
        self.met[place] = found = (self.key(), self.value())
        return found

    def key(self) -> _Key:
        self.expect("HoodieKey")
        known = self.referred(_Key)
        if known is not None:
            return known
        place = len(self.met) - 1
        self.met[place] = found = _Key(self.text(), self.text())
        return found

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
        known = self.referred(_Value)
        if known is not None:
            return known
        place = len(self.met) - 1
        branch, read = _CLASSES[name]
        self.met[place] = found = _Value(branch, read(self))
        return found

    def text(self) -> str | None:
        if self.data[self.at] == 0:
            self.at += 1
            return None
        known = self.referred(str)
        if known is not None:
            return known
        self.met[-1] = found = self.characters()
        return found

    def referred(self, kind: type[_T]) -> _T | None:
        """The object that a reference means, None for a new one, which takes the last place of those met."""
        number = self.number()
        if number == 1:
            self.met.append(None)
            return None
        known = self.met[number - 2] if number else None
        if not isinstance(known, kind):
            _no_deletes(f"a reference to no {kind.__name__.strip('_').lower()}")
        return known

    def class_name(self) -> str:
        """The name of a class, that of a registered one without its package; "" for null."""
        number = self.number()
        if number == 0:
            return ""
        if number > 1:
            known = number - 2 < len(_REGISTERED)
            return _REGISTERED[number - 2] if known else f"registered as {number - 2}"
        name = self.number()
        if name == len(self.names):
            self.names.append(self.characters())
        return self.names[name]

    def expect(self, name: str) -> None:
        found = self.class_name()
        if found != _MODEL + name:
            _no_deletes(f"{found or 'null'} where a {name} is expected")

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
        found, known = held[:length].decode(), self.text()
        if known is not None and known != found:
            _no_deletes("a text and its bytes differ")
        return found

    def decimal(self) -> Decimal:
        digits = int.from_bytes(self.counted(), "big", signed=True)
        return Decimal(f"{digits}E{-self.signed(32)}")

    def local_date(self) -> int:
        return (datetime.date(self.complement(32), self.take(1)[0], self.take(1)[0]) - _EPOCH).days

    def instant(self) -> int:
        return self.complement(64) * 1_000_000 + self.complement(32) // 1000

    def timestamp(self) -> int:
        """Milliseconds: Kryo drops what is below."""
        return self.complement(64) * 1000


_Readers = dict[str, tuple[OrderingBranch, Callable[[_Objects], Any]]]
_WRAPPERS: _Readers = {
    "int": (OrderingBranch.INT, lambda found: found.signed(32)),
    "long": (OrderingBranch.LONG, lambda found: found.signed(64)),
    "float": (OrderingBranch.FLOAT, lambda found: found.fixed("f")),
    "double": (OrderingBranch.DOUBLE, lambda found: found.fixed("d")),
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
