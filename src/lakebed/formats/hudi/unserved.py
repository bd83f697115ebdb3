"""Options of Hudi that change what a write or a read does, and that lakebed does not serve.

Source: the config classes of releases 1.1.1 and 1.2.0. Such an option is refused by name before anything is written,
unless its value asks for nothing: it is empty, false, or what lakebed does anyway. Options that change no rows are
accepted without effect (`tuning.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakebed.errors import UnsupportedError
from lakebed.formats.hudi.tuning import TUNING
from lakebed.kernel.options import Option, OptionSet, idle_option

_CLASSES = "org.apache.hudi."
_PROPERTY = "properties that a table keeps for itself, as options"
_LEAVE = "Leave the option out"


@dataclass(frozen=True, slots=True)
class Unserved:
    """What an option asks for, what to do instead, and the values (in lower case) that ask for nothing new."""

    what: str
    instead: str = _LEAVE
    harmless: tuple[str, ...] = ()

    def takes(self, text: str, table: str) -> bool:
        """Whether a value asks for nothing, for a table at a location."""
        plain = text.strip().lower()
        if plain == "false":
            return "true" not in self.harmless
        return plain in ("", *self.harmless) or plain.rstrip("/") == table.rstrip("/").lower()


def _java(what: str, default: str) -> Unserved:
    """Java classes, of which the one that Hudi takes by default asks for nothing."""
    return Unserved(f"{what} as Java classes", harmless=(f"{_CLASSES}{default}".lower(),))


_RUN = "client.clustering.run.strategy."
_MERGERS = Unserved(
    "mergers as Java classes",
    "Choose a hoodie.write.record.merge.mode",
    tuple(
        f"{_CLASSES}{name}".lower()
        for name in ("common.model.HoodieAvroRecordMerger", "HoodieSparkRecordMerger", "DefaultSparkRecordMerger")
    ),
)
_BUILT_IN = "the columns of a write as an option"
_EXTRACTORS = Unserved("partition values by Java classes", "Keep the partition columns in the files")
_CLEANED = Unserved("cleans of chosen partitions", "Leave the option out: a clean takes all partitions")
UNSERVED: Mapping[str, Unserved] = {
    "hoodie.datasource.hive_sync.enable": Unserved(
        "the sync of a table to a Hive metastore", "Set it to false, and sync with a job of your own"
    ),
    "hoodie.datasource.meta.sync.enable": Unserved(
        "the sync of a table to a catalog", "Set it to false, and sync with a job of your own"
    ),
    "hoodie.errortable.enable": Unserved("an error table", "Filter the rows before the write"),
    "hoodie.bulkinsert.user.defined.partitioner.class": Unserved(
        "partitioners of bulk inserts as Java classes", "Choose a hoodie.bulkinsert.sort.mode"
    ),
    "hoodie.bulkinsert.user.defined.partitioner.sort.columns": Unserved(
        "sort columns of bulk inserts", "Sort files by clustering: hoodie.clustering.plan.strategy.sort.columns"
    ),
    "hoodie.index.class": Unserved("indexes as Java classes", "Choose a hoodie.index.type"),
    "hoodie.write.record.merge.custom.implementation.classes": _MERGERS,
    "hoodie.datasource.write.record.merger.impls": _MERGERS,
    "hoodie.write.merge.handle.class": _java("merge handles", "io.FileGroupReaderBasedMergeHandle"),
    "hoodie.write.concat.handle.class": _java("merge handles", "io.HoodieConcatHandle"),
    "hoodie.compact.merge.handle.class": _java("merge handles", "io.FileGroupReaderBasedMergeHandle"),
    "hoodie.client.init.callback.classes": Unserved("callbacks as Java classes", "Use lakebed.callbacks"),
    "hoodie.write.commit.callback.on": Unserved("Hudi's commit callbacks", "Use lakebed.callbacks"),
    "hoodie.metaserver.enabled": Unserved("a metaserver"),
    "hoodie.table.service.manager.enabled": Unserved(
        "a manager of table services", "Call table.rewrite and table.expire from a job"
    ),
    "hoodie.allow.operation.metadata.field": Unserved("the column _hoodie_operation"),
    "hoodie.datasource.write.secondarykey.column": Unserved("secondary indexes", "Make them with Hudi's own engine"),
    "hoodie.metadata.index.secondary.column": Unserved("secondary indexes", "Make them with Hudi's own engine"),
    "hoodie.metadata.index.expression.enable": Unserved("expression indexes", "Make them with Hudi's own engine"),
    "hoodie.metadata.index.expression.column": Unserved("expression indexes", "Make them with Hudi's own engine"),
    "hoodie.metadata.index.expression.options": Unserved("expression indexes", "Make them with Hudi's own engine"),
    "hoodie.expression.index.function": Unserved("expression indexes", "Make them with Hudi's own engine"),
    "hoodie.index.name": Unserved("indexes by name", "Make them with Hudi's own engine"),
    "hoodie.metadata.index.drop": Unserved("the removal of indexes", "Remove them with Hudi's own engine"),
    "hoodie.bootstrap.base.path": Unserved(
        "tables over files that lie elsewhere", "Read those files and write their rows, or bootstrap with Hudi's engine"
    ),
    "hoodie.clean.delete.bootstrap.base.file": Unserved("the removal of bootstrapped files"),
    "hoodie.cleaner.delete.bootstrap.base.file": Unserved("the removal of bootstrapped files"),
    "hoodie.precommit.validators": Unserved("validators as Java classes", "Check the rows before the write"),
    "hoodie.log.compaction.enable": Unserved(
        "log compaction of the metadata table", "Merge the blocks of the table's logs: hoodie.log.compaction.inline"
    ),
    "hoodie.compaction.plan.generator": _java(
        "plans of compactions", "table.action.compact.plan.generators.HoodieCompactionPlanGenerator"
    ),
    "hoodie.clustering.execution.strategy.class": _java(
        "runs of clusterings", f"{_RUN}SparkSortAndSizeExecutionStrategy"
    ),
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": Unserved(
        "the withdrawal of clusterings by writes", "Withdraw one by lakebed.rewrite.step"
    ),
    "hoodie.partition.ttl.strategy.class": Unserved(
        "strategies of partition TTL as Java classes", "Choose a hoodie.partition.ttl.management.strategy.type"
    ),
    "hoodie.storage.layout.partitioner.class": _java("partitioners", "table.action.commit.SparkBucketIndexPartitioner"),
    "hoodie.rollback.instant.backup.enabled": Unserved("copies of the instants that are rolled back"),
    "hoodie.datasource.write.streaming.ignore.failed.batch": Unserved(
        "streams that go on after a batch that failed", "Run the stream again: it goes on with that batch"
    ),
    "hoodie.datasource.write.commitmeta.key.prefix": Unserved(
        "options that become a commit's metadata", harmless=("_",)
    ),
    "hoodie.avro.schema": Unserved(_BUILT_IN, "Give the rows these columns"),
    "hoodie.write.schema": Unserved(_BUILT_IN, "Give the rows these columns"),
    "hoodie.internal.schema": Unserved(_BUILT_IN, "Give the rows these columns"),
    "hoodie.write.partial.update.schema": Unserved(_BUILT_IN, "Give the rows all columns"),
    "hoodie.bulkinsert.schema.ddl": Unserved(_BUILT_IN, "Give the rows these columns"),
    "hoodie.avro.schema.external.transformation": Unserved("schemas from elsewhere"),
    "hoodie.avro.schema.externaltransformation": Unserved("schemas from elsewhere"),
    "hoodie.bulkinsert.overwrite.operation.type": Unserved(
        "overwrites as bulk inserts", "Name the overwrite in hoodie.datasource.write.operation"
    ),
    "hoodie.static.overwrite.partition.paths": Unserved(
        "overwrites of named partitions", "Delete them (delete_partition), or overwrite with rows of each"
    ),
    "hoodie.avro.write.support.class": _java("writers of files", "avro.HoodieAvroWriteSupport"),
    "hoodie.parquet.spark.row.write.support.class": _java(
        "writers of files", "io.storage.row.HoodieRowParquetWriteSupport"
    ),
    "hoodie.parquet.flink.rowdata.write.support.class": _java(
        "writers of files", "io.storage.row.HoodieRowDataParquetWriteSupport"
    ),
    "hoodie.io.factory.class": Unserved(
        "storage as Java classes",
        harmless=tuple(f"{_CLASSES}io.{name}HoodieHadoopIOFactory".lower() for name in ("hadoop.", "storage.hadoop.")),
    ),
    "hoodie.storage.class": _java("storage", "storage.hadoop.HoodieHadoopStorage"),
    "hoodie.fileid.prefix.provider.class": _java("names of file groups", "table.RandomFileIdPrefixProvider"),
    "hoodie.writestatus.class": _java("write statuses", "client.WriteStatus"),
    "hoodie.parquet.outputtimestamptype": Unserved(
        "timestamps in files other than microseconds", harmless=("timestamp_micros",)
    ),
    "hoodie.parquet.write.utc-timezone.enabled": Unserved("timestamps in files in a local time", harmless=("true",)),
    "hoodie.parquet.writelegacyformat.enabled": Unserved("files in the form of old Parquet readers"),
    "hoodie.base.path": Unserved("writes to another location than that of the table"),
    "hoodie.timeline.layout.version": Unserved(_PROPERTY, harmless=("1", "2")),
    "hoodie.timeline.path": Unserved(_PROPERTY, harmless=("timeline",)),
    "hoodie.timeline.history.path": Unserved(_PROPERTY, harmless=("history",)),
    "hoodie.table.initial.version": Unserved(_PROPERTY, harmless=("nine", "9", "8", "6")),
    "hoodie.table.create.schema": Unserved(_PROPERTY, "Give lakebed.create the columns"),
    "hoodie.table.index.defs.path": Unserved(_PROPERTY),
    "hoodie.table.legacy.payload.class": Unserved(_PROPERTY, "Give hoodie.datasource.write.payload.class"),
    "hoodie.table.metadata.partitions": Unserved(_PROPERTY),
    "hoodie.table.metadata.partitions.inflight": Unserved(_PROPERTY),
    "hoodie.table.multiple.base.file.formats.enable": Unserved("base files of several formats"),
    "hoodie.table.secondary.indexes.metadata": Unserved(_PROPERTY),
    "hoodie.table.checksum": Unserved(_PROPERTY),
    "hoodie.datasource.write.slash.separated.date.partitioning": Unserved(
        "partition paths of dates with slashes", "Partition by a column that has such texts"
    ),
    "hoodie.datasource.partition_extractor_class": _EXTRACTORS,
    "hoodie.table.partition_extractor_class": _EXTRACTORS,
    "hoodie.clean.partition.filter.regex": _CLEANED,
    "hoodie.clean.partition.filter.selected": _CLEANED,
    "hoodie.cleaner.partition.filter.regex": _CLEANED,
    "hoodie.cleaner.partition.filter.selected": _CLEANED,
    "hoodie.archive.block.on.latest.clean.ectr": Unserved("archivals that wait for the newest clean"),
    "hoodie.clustering.plan.strategy.earliest.commit.to.cluster": Unserved(
        "clusterings of the files since a commit", "Choose partitions: table.rewrite(where=...)"
    ),
    "hoodie.clustering.plan.strategy.file.slices.sort.by": Unserved(
        "plans of clusterings in another order than by size", harmless=("size",)
    ),
    "hoodie.metadata.table.service.manager.enabled": Unserved(
        "a manager of table services", "Call table.rewrite and table.expire from a job"
    ),
    "hoodie.metadata.write.concurrency.mode": Unserved(
        "a concurrency mode of the metadata table's own",
        "Give hoodie.write.concurrency.mode, which holds for both",
        ("single_writer",),
    ),
    "hoodie.parquet.write.config.injector.class": Unserved("settings of Parquet writers by Java classes"),
    "hoodie.prewrite.validators": Unserved("validators as Java classes", "Check the rows before the write"),
    "hoodie.prewrite.cleaner.policy": Unserved(
        "clean-ups before a write", "Call table.expire before the write", ("none",)
    ),
    "hoodie.write.rolling.metadata.keys": Unserved("metadata that each commit takes over from the one before"),
    "_.hoodie.allow.multi.write.on.same.instant": Unserved("several writes in one instant"),
}
"""By key, in lower case. An option that is declared anywhere else is served, and is not looked up here."""
_FILES, _HISTORY = "reads of a table's files as a table", "reads of a timeline as a table"
UNSERVED_READS: Mapping[str, Unserved] = {
    "hoodie.datasource.read.paths": Unserved("reads of chosen files", "Choose rows by a condition"),
    "hoodie.datasource.read.incr.path.glob": Unserved(
        "incremental reads of chosen files", "Choose rows by a condition"
    ),
    "hoodie.datasource.read.incr.filters": Unserved("incremental reads with filters", "Choose rows by a condition"),
    "hoodie.datasource.read.create.filesystem.relation": Unserved(_FILES, 'Use table.metadata("files")'),
    "hoodie.datasource.read.table.valued.function.filesystem.relation.subpath": Unserved(_FILES),
    "hoodie.datasource.read.table.valued.function.timeline.relation": Unserved(_HISTORY, "Use table.history"),
    "hoodie.datasource.read.table.valued.function.timeline.relation.archived": Unserved(_HISTORY, "Use table.history"),
    "hoodie.datasource.read.partition.value.extractor.enabled": _EXTRACTORS,
    "hoodie.read.blob.inline.mode": Unserved("the bytes of blobs in place of descriptors", harmless=("descriptor",)),
}
"""Read options of Hudi's own Spark source. Writes accept them without effect."""
_BLOCKS = "hoodie.logfile.data.block.format"


def refuse_unserved(given: Mapping[str, str], table: str, known: Mapping[str, Unserved] = UNSERVED) -> None:
    """Raise UnsupportedError for the first option that asks for something lakebed does not do. Keys in lower case."""
    for key, text in given.items():
        refused = known.get(key)
        if refused is not None and not refused.takes(text, table):
            raise UnsupportedError(
                f"lakebed does not have {refused.what}",
                table=table,
                why=f"the option {key} is {text!r}",
                todo=refused.instead,
            )


def refuse_hfile_blocks(given: Mapping[str, str], table: str) -> None:
    """Raise UnsupportedError for data blocks in the form that Hudi has for its metadata table."""
    if given.get(_BLOCKS, "").strip().lower() == "hfile":
        raise UnsupportedError(
            "lakebed does not write HFile data blocks into the logs of a table",
            table=table,
            why=f"the option {_BLOCKS} is hfile, which Hudi has for its metadata table",
            todo="Use avro or parquet",
        )


def placeholders(served: OptionSet) -> OptionSet:
    """The options that are refused or have no effect, without those that are served."""
    taken = [idle_option(key, "Accepted without effect: it changes no rows here") for key in TUNING]
    options = (*taken, *refused_options(UNSERVED))
    return OptionSet((option for option in options if not served.knows(option.key)), served.where)


def refused_options(known: Mapping[str, Unserved]) -> list[Option[str]]:
    """Declarations of options that are refused."""
    return [Option(key, str, "", f"Refused unless it asks for nothing: {each.what}") for key, each in known.items()]
