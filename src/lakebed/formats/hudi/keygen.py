"""Key generators: how a table makes record keys and partition paths from columns, by its properties.

Rules: Hudi's `KeyGeneratorType` and the classes that it names. A table records the type, the class or both. Where they
disagree, or name a class that Hudi does not ship, nothing is certain about keys and paths.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.kernel.arrays import is_bytes

_PACKAGE = "org.apache.hudi.keygen."


class GeneratorKind(Enum):
    """The families of key generators. The Avro class and the Spark class of a family make the same paths."""

    SIMPLE = "simple"
    COMPLEX = "complex"
    CUSTOM = "custom"
    TIMESTAMP = "timestamp"
    NON_PARTITION = "non_partition"
    GLOBAL_DELETE = "global_delete"
    OTHER = "other"
    """A class that Hudi does not ship, or properties that contradict each other."""
    UNNAMED = "unnamed"
    """The table does not say."""


_CLASSES = {
    "SimpleKeyGenerator": GeneratorKind.SIMPLE,
    "SimpleAvroKeyGenerator": GeneratorKind.SIMPLE,
    "ComplexKeyGenerator": GeneratorKind.COMPLEX,
    "ComplexAvroKeyGenerator": GeneratorKind.COMPLEX,
    "CustomKeyGenerator": GeneratorKind.CUSTOM,
    "CustomAvroKeyGenerator": GeneratorKind.CUSTOM,
    "TimestampBasedKeyGenerator": GeneratorKind.TIMESTAMP,
    "TimestampBasedAvroKeyGenerator": GeneratorKind.TIMESTAMP,
    "NonpartitionedKeyGenerator": GeneratorKind.NON_PARTITION,
    "NonpartitionedAvroKeyGenerator": GeneratorKind.NON_PARTITION,
    "GlobalDeleteKeyGenerator": GeneratorKind.GLOBAL_DELETE,
    "GlobalAvroDeleteKeyGenerator": GeneratorKind.GLOBAL_DELETE,
}


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """The key generator of a table. `name` is its name in the properties; `avro` says that it is a class for Avro
    records, as Flink and the Java client use."""

    kind: GeneratorKind
    name: str = ""
    avro: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> KeyGenerator:
        """The key generator that a table's properties name."""
        type_name = properties.get("hoodie.table.keygenerator.type", "").strip()
        class_name = properties.get("hoodie.table.keygenerator.class", "").strip()
        kinds = {_by_type(type_name)} if type_name else set()
        if class_name:
            kinds.add(_by_class(class_name))
        kind = kinds.pop() if len(kinds) == 1 else GeneratorKind.OTHER if kinds else GeneratorKind.UNNAMED
        name = class_name or type_name
        return cls(kind, name, "Avro" in class_name or type_name.upper().endswith("_AVRO"))

    def copies_partition_values(self, field_kinds: tuple[str, ...]) -> bool:
        """Whether a partition path holds the partition columns' own text.

        `field_kinds` are the kinds of the partition fields in upper case, which a custom key generator needs; "" where
        the properties name none.
        """
        if self.kind in (GeneratorKind.SIMPLE, GeneratorKind.COMPLEX):
            return all(kind in ("", "SIMPLE") for kind in field_kinds)
        return self.kind is GeneratorKind.CUSTOM and all(kind == "SIMPLE" for kind in field_kinds)

    @property
    def is_shipped(self) -> bool:
        """Whether Hudi ships it, so that equal key columns make equal keys, and the other way round."""
        return self.kind not in (GeneratorKind.OTHER, GeneratorKind.UNNAMED)


FIELD_KINDS = ("SIMPLE", "TIMESTAMP")
"""The kinds of the partition fields of a custom key generator."""


def field_kinds(text: str) -> dict[str, str]:
    """The kind of each partition field in a text such as `city:SIMPLE,ts:TIMESTAMP`; {} where not each has one."""
    pairs = [part.strip().partition(":") for part in text.split(",") if part.strip()]
    kinds = {name: kind.strip().upper() for name, _, kind in pairs}
    return kinds if all(kind in FIELD_KINDS for kind in kinds.values()) else {}


def check_kinds(schema: pa.Schema, columns: Iterable[str], table: str) -> None:
    """SchemaError for key and partition columns that have no text of their own: of such a value Hudi's engines write
    Java's name of the object, which is the same for many values, or another one each time."""
    for name in columns:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or is_bytes(kind):
            raise SchemaError(
                f"column {name!r} is {kind}, of which Hudi makes no key and no partition",
                table=table,
                todo="Add a column with its text, such as the hex digits of bytes, and name that one",
            )


def _by_type(name: str) -> GeneratorKind:
    plain = name.upper().removesuffix("_AVRO")
    return GeneratorKind[plain] if plain in GeneratorKind.__members__ and plain != "UNNAMED" else GeneratorKind.OTHER


def _by_class(name: str) -> GeneratorKind:
    if not name.startswith(_PACKAGE):
        return GeneratorKind.OTHER
    return _CLASSES.get(name.removeprefix(_PACKAGE), GeneratorKind.OTHER)
