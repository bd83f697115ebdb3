"""The record keys of rows that a table has: of the meta column, or made from the key columns where it has no values.

In a table without meta columns (`hoodie.populate.meta.fields=false`) the five columns are in every file, all null. Its
files have no bloom filter and no range of keys either, so only the key columns tell which rows a file has.

Rules: Hudi's `HoodieWriteConfig.populateMetaFields`, `HoodieFileWriterFactory` (no filter), `HoodieSimpleIndex` and
`HoodieGlobalSimpleIndex` (which make keys by the key generator).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import RECORD_KEY
from lakebed.formats.hudi.write.keys import RowKeys
from lakebed.kernel.arrays import one_chunk


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """Gives the keys of stored rows. Picklable. `made` makes them from columns, None where a meta column has them."""

    made: RowKeys | None = None

    @classmethod
    def of(cls, config: TableConfig, schema: pa.Schema) -> StoredKeys:
        """The reader of keys for a table's settings. `schema` has the table's columns."""
        return cls(None if config.meta_fields else RowKeys.of(config, schema))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that tell a row's key."""
        return (RECORD_KEY,) if self.made is None else self.made.fields

    def keys(self, rows: pa.RecordBatch | pa.Table) -> pa.StringArray:
        """The record key of each row, as the key generator spells it."""
        return one_chunk(rows.column(RECORD_KEY)) if self.made is None else self.made.keys(rows)

    def spelled(self, texts: pa.StringArray) -> pa.StringArray:
        """Keys as the key generator spells them, from what `codec.record_keys.row_keys` gives."""
        if self.made is None or len(self.made.fields) > 1 or not self.made.complex_key:
            return texts
        return pc.binary_join_element_wise(f"{self.made.fields[0]}:", texts, "")
