"""Options of Hudi's writers that change what a write does, and that lakebed does not serve.

Source: the config classes of release 1.1.1. Such an option is refused by name before anything is written, unless its
value asks for nothing. Options that change no rows are accepted without effect (`tuning.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from lakebed.errors import UnsupportedError

UNSERVED: Mapping[str, str] = {
    "hoodie.datasource.hive_sync.enable": "the sync of a table to a Hive metastore",
    "hoodie.datasource.meta.sync.enable": "the sync of a table to a catalog",
    "hoodie.allow.operation.metadata.field": "the column _hoodie_operation",
    "hoodie.errortable.enable": "an error table",
    "hoodie.bulkinsert.user.defined.partitioner.class": "partitioners of bulk inserts as Java classes",
    "hoodie.index.class": "indexes as Java classes",
    "hoodie.write.record.merge.custom.implementation.classes": "mergers as Java classes",
    "hoodie.write.merge.handle.class": "merge handles as Java classes",
    "hoodie.write.concat.handle.class": "merge handles as Java classes",
    "hoodie.client.init.callback.classes": "callbacks as Java classes",
    "hoodie.metaserver.enabled": "a metaserver",
    "hoodie.datasource.write.reconcile.schema": "columns that a write leaves out, by the rules of Hudi's own engine",
}
"""What each option asks for, by its key. The values empty and false ask for nothing."""
_HARMLESS = ("", "false")
_BLOCKS = "hoodie.logfile.data.block.format"


def refuse_unserved(given: Mapping[str, str], table: str) -> None:
    """Raise UnsupportedError for the first option that asks for something lakebed does not do. Keys in lower case."""
    for key, what in UNSERVED.items():
        if given.get(key, "").strip().lower() not in _HARMLESS:
            raise UnsupportedError(
                f"lakebed does not have {what}",
                table=table,
                why=f"the option {key} is {given[key]!r}",
                todo="Leave the option out",
            )
    if given.get(_BLOCKS, "").strip().lower() == "hfile":
        raise UnsupportedError(
            "lakebed does not write HFile data blocks into the logs of a table",
            table=table,
            why=f"the option {_BLOCKS} is hfile, which Hudi has for its metadata table",
            todo="Use avro or parquet",
        )
