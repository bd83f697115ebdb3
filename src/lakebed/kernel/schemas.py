"""Arrow schemas as keys, for what is worked out once for all files with the same columns."""

from __future__ import annotations

import pyarrow as pa


class SchemaKey:
    """A schema that can be the key of a dict. Equal schemas have the same names, types and metadata of fields, such as
    field ids; what the schema as a whole has as metadata does not count."""

    __slots__ = ("_hash", "schema")

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema.remove_metadata()
        self._hash = hash(tuple(schema.names))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaKey) and bool(self.schema.equals(other.schema, check_metadata=True))
