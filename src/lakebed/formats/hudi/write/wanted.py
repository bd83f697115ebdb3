"""The details of new files that a table's metadata table records: which parts it has decides."""

from __future__ import annotations

from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.metadata_table.definitions import definition_of
from lakebed.formats.hudi.metadata_table.keys_written import BLOOM_FILTERS
from lakebed.formats.hudi.metadata_table.named import PARTITIONS, partitions_of
from lakebed.formats.hudi.metadata_table.options import COLUMN_STATS_LIST, METADATA_ENABLE
from lakebed.formats.hudi.metadata_table.record_index import RECORD_INDEX
from lakebed.formats.hudi.metadata_table.records import FILES
from lakebed.formats.hudi.metadata_table.statistics import COLUMN_STATS
from lakebed.formats.hudi.write.files import Wanted
from lakebed.kernel.files import Store
from lakebed.kernel.options import Options


def wanted_of(store: Store, config: TableConfig, options: Options) -> Wanted:
    """The details to collect about the files of a write."""
    parts = partitions_of(config, PARTITIONS)
    if not options[METADATA_ENABLE] or FILES not in parts:
        return Wanted()
    columns: tuple[str, ...] | None = None
    if COLUMN_STATS in parts:
        listed = definition_of(store, config, COLUMN_STATS).get("sourceFields")
        columns = tuple(listed) if listed else named_columns(options)
    if not config.meta_fields:  # nothing keeps filters and keys
        return Wanted(columns)
    return Wanted(columns, BLOOM_FILTERS in parts, RECORD_INDEX in parts)


def named_columns(options: Options) -> tuple[str, ...]:
    """The columns that the options name for statistics; none: all."""
    return tuple(filter(None, (name.strip() for name in options[COLUMN_STATS_LIST].split(","))))
