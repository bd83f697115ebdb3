"""What a caller asks a read for, apart from which commits: options, columns and a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakebed.kernel.options import Options
from lakebed.kernel.predicates.tree import Node
from lakebed.kernel.predicates.where import Where, columns_of, parse_where
from lakebed.verbs.arguments import project


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The read options, the columns (None: all), and the predicate (None: every row)."""

    options: Options
    columns: Sequence[str] | None = None
    where: Where = None

    def projected(self, schema: pa.Schema, table: str) -> Projection:
        """The columns and the predicate in a schema.

        Raises SchemaError or UsageError for a column or a predicate that does not fit the schema.
        """
        columns = tuple(project(self.columns, schema, table=table))
        predicate = parse_where(self.where, schema)
        return Projection(columns, columns_of(predicate), predicate)


@dataclass(frozen=True, slots=True)
class Projection:
    """The columns of a read, those that its predicate names, and the predicate (None: every row)."""

    columns: tuple[str, ...]
    filtered: tuple[str, ...]
    predicate: Node | None

    @property
    def decoded(self) -> tuple[str, ...]:
        """The columns asked for, then those that only the predicate names."""
        return tuple(dict.fromkeys([*self.columns, *self.filtered]))
