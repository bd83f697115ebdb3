"""What works for which format, and the tests that prove it: the source of the grid in the README.

A cell is as good as its tests: without one it is "not yet", whatever is written here. `note` says what is left out and
makes the cell "partly". Tests are named by the beginning of their pytest id.
"""

from dataclasses import dataclass

FORMATS = ("hudi", "paimon", "iceberg")


@dataclass(frozen=True, slots=True)
class Cell:
    """One verb or feature of one format."""

    tests: tuple[str, ...] = ()
    note: str = ""
    none: str = ""
    """Why the format has no such thing."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the grid: what it is, how it is called, and its cells; a format without one is "not yet"."""

    title: str
    call: str
    cells: dict[str, Cell]


HUDI, PAIMON = "tests/conformance/test_hudi.py::", "tests/conformance/test_paimon.py::"
SOURCE, SINK = "tests/spark/test_source.py::", "tests/spark/test_sink.py::"
PAIMON_SPARK = "tests/spark/test_paimon_source.py::"
ICEBERG, GOLDEN_ICEBERG = "tests/conformance/test_iceberg.py::", "tests/golden/test_iceberg_read.py::"
HUDI_SINK = "tests/spark/test_hudi_sink.py::"
ICEBERG_SPARK, ICEBERG_SINK = "tests/spark/test_iceberg_source.py::", "tests/spark/test_iceberg_sink.py::"
STREAM_SINK, KILLED = "tests/spark/test_stream_sink.py::", "tests/programs/test_killed.py::test_killed"
PAIMON_CHANGES = "tests/golden/test_paimon_changes.py::"
GOLDEN_HUDI, GOLDEN_PAIMON = "tests/golden/test_hudi_read.py::", "tests/golden/test_paimon_read.py::"

GRID = (
    Row("read a snapshot", "`table.read`", {
        "hudi": Cell((f"{HUDI}TestRead", f"{GOLDEN_HUDI}test_snapshot")),
        "paimon": Cell((f"{PAIMON}TestRead", f"{PAIMON}TestReadOurs", f"{GOLDEN_PAIMON}test_rows")),
        "iceberg": Cell((
            f"{ICEBERG}TestRead", f"{GOLDEN_ICEBERG}test_rows", f"{GOLDEN_ICEBERG}test_lineage",
            "tests/property/test_iceberg_read.py::", "tests/unit/iceberg/read/test_deletes.py::",
            "tests/unit/iceberg/read/test_pruning.py::",
        )),
    }),
    Row("time travel", "`as_of`", {
        "hudi": Cell((f"{HUDI}TestRead::test_as_of", f"{GOLDEN_HUDI}test_each_moment")),
        "paimon": Cell((
            f"{PAIMON}TestRead::test_as_of", f"{GOLDEN_PAIMON}test_tag", f"{GOLDEN_PAIMON}test_time_travel",
        )),
        "iceberg": Cell((
            f"{ICEBERG}TestRead::test_as_of", f"{GOLDEN_ICEBERG}test_each_snapshot",
            f"{GOLDEN_ICEBERG}test_branches",
        )),
    }),
    Row("read changes", "`table.changes`", {
        "hudi": Cell((f"{HUDI}TestChanges", f"{GOLDEN_HUDI}test_range")),
        "paimon": Cell((
            f"{PAIMON}TestChanges", f"{PAIMON_CHANGES}test_changes", "tests/unit/paimon/read/test_changes.py::",
        )),
        "iceberg": Cell((f"{ICEBERG}TestChanges", f"{GOLDEN_ICEBERG}test_changes")),
    }),
    Row("the row before and after each change", "`-U`, `+U` in `table.changes`", {
        "hudi": Cell((f"{HUDI}TestFullChanges", f"{HUDI}TestFullStream", "tests/golden/test_hudi_cdc.py::")),
        "paimon": Cell((
            f"{PAIMON_CHANGES}test_changes[cl_", f"{PAIMON_CHANGES}test_stream[cl_",
        )),
        "iceberg": Cell(
            (f"{GOLDEN_ICEBERG}test_updates_are_told_by_row_ids",), "rows with ids, from format version 3 on",
        ),
    }),
    Row("stream", "`table.stream`", {
        "hudi": Cell((f"{HUDI}TestStream",)),
        "paimon": Cell((
            f"{PAIMON}TestStream", f"{PAIMON_CHANGES}test_stream", "tests/unit/paimon/read/test_stream.py::",
        )),
        "iceberg": Cell((f"{ICEBERG}TestStream",)),
    }),
    Row("history", "`table.history`", {
        "hudi": Cell((f"{HUDI}TestRead::test_history", f"{GOLDEN_HUDI}test_archived_history")),
        "paimon": Cell((f"{PAIMON}TestRead::test_history", f"{GOLDEN_PAIMON}test_history")),
        "iceberg": Cell((f"{ICEBERG}TestRead::test_history", "tests/golden/test_iceberg_metadata.py::")),
    }),
    Row("create", "`lakebed.create`", {
        "hudi": Cell((f"{HUDI}TestWrite::test_rows_come_back", "tests/property/test_hudi_writes.py::")),
        "paimon": Cell(
            ("tests/unit/paimon/test_create.py::", "tests/interop/test_paimon_outside.py::"),
        ),
        "iceberg": Cell(("tests/unit/iceberg/test_create.py::", "tests/interop/test_iceberg_metadata_outside.py::")),
    }),
    Row("write: append, upsert, delete, overwrite", "`table.write`", {
        "hudi": Cell(
            (
                f"{HUDI}TestWrite", "tests/unit/hudi/write/test_write.py::", "tests/property/test_hudi_writes.py::",
                "tests/unit/hudi/write/test_buckets.py::", "tests/unit/hudi/write/test_consistent_hashing.py::",
                "tests/unit/hudi/write/test_global_indexes.py::", "tests/interop/test_hudi_writers_outside.py::",
            ),
            "no index outside of the table, no base files but Parquet",
        ),
        "paimon": Cell(
            (
                f"{PAIMON}TestWrite", "tests/unit/paimon/write/test_sink.py::",
                "tests/unit/paimon/write/test_dynamic.py::",
                "tests/unit/paimon/rewrite/test_postpone.py::", "tests/property/test_paimon_model.py::",
                "tests/interop/test_paimon_outside.py::",
            ),
            "no columns of the types BLOB, GEOGRAPHY, GEOMETRY, MULTISET, VARIANT and VECTOR",
        ),
        "iceberg": Cell((
            f"{ICEBERG}TestWrite", "tests/unit/iceberg/write/test_sink.py::",
            "tests/unit/iceberg/write/test_sizes.py::", "tests/property/test_iceberg_sink.py::",
            "tests/interop/test_iceberg_sink_outside.py::",
        )),
    }),
    Row("commit exactly once, whatever crashes", "`table.writer`", {
        "hudi": Cell((f"{HUDI}TestWrite::test_an_identifier", "tests/crash/test_hudi_write.py::")),
        "paimon": Cell((
            f"{PAIMON}TestWrite::test_an_identifier", "tests/crash/test_paimon_commit.py::",
            "tests/unit/paimon/commit/test_kinds.py::",
        )),
        "iceberg": Cell((
            f"{ICEBERG}TestWrite::test_an_identifier", "tests/crash/test_iceberg_sink.py::",
            "tests/unit/iceberg/write/test_sink.py::",
        )),
    }),
    Row("rewrite small files", "`table.rewrite`", {
        "hudi": Cell(
            (
                "tests/unit/hudi/rewrite/test_compaction.py::", "tests/unit/hudi/rewrite/test_clustering.py::",
                "tests/unit/hudi/rewrite/test_log_compaction.py::", "tests/unit/hudi/rewrite/test_resizing.py::",
                "tests/crash/test_hudi_services.py::", "tests/crash/test_hudi_log_compaction.py::",
                "tests/interop/test_hudi_lives_outside.py::",
            ),
        ),
        "paimon": Cell((
            "tests/golden/test_paimon_compaction.py::", "tests/unit/paimon/rewrite/test_compaction.py::",
            "tests/unit/paimon/rewrite/test_postpone.py::", "tests/property/test_paimon_compaction.py::",
            "tests/crash/test_paimon_compaction.py::", "tests/golden/test_paimon_append.py::",
            "tests/unit/paimon/rewrite/test_append.py::", "tests/crash/test_paimon_append_compaction.py::",
        ), "no data evolution, no incremental clustering"),
        "iceberg": Cell((
            "tests/golden/test_iceberg_rewrite.py::", "tests/unit/iceberg/rewrite/test_plan.py::",
            "tests/unit/iceberg/rewrite/test_run.py::", "tests/property/test_iceberg_rewrite.py::",
            "tests/crash/test_iceberg_rewrite.py::",
        )),
    }),
    Row("expire", "`table.expire`", {
        "hudi": Cell(
            (
                "tests/unit/hudi/expire/test_clean.py::", "tests/crash/test_hudi_clean.py::",
                "tests/unit/hudi/expire/test_partitions.py::", "tests/unit/hudi/expire/test_failed_writes.py::",
                "tests/unit/hudi/expire/test_orphans.py::",
            ),
        ),
        "paimon": Cell(("tests/unit/paimon/expire/test_run.py::", "tests/crash/test_paimon_expire.py::")),
        "iceberg": Cell(("tests/unit/iceberg/expire/test_run.py::", "tests/crash/test_iceberg_commit.py::")),
    }),
    Row("archive", "`table.archive`", {
        "hudi": Cell((
            "tests/golden/test_hudi_archive.py::", "tests/crash/test_hudi_archive.py::",
            "tests/unit/hudi/archive/test_plan.py::", "tests/unit/hudi/archive/test_write.py::",
            "tests/unit/hudi/archive/test_docs.py::", "tests/unit/hudi/archive/test_lock.py::",
            "tests/unit/hudi/archive/test_retention.py::", "tests/unit/hudi/archive/test_read.py::",
            "tests/interop/test_hudi_archive_outside.py::", "tests/interop/test_hudi_archive_rs.py::",
        )),
        "paimon": Cell(none="the format has no such thing"),
        "iceberg": Cell(none="the format has no such thing"),
    }),
    Row("tags (Hudi: savepoints)", "`table.tag`", {
        "hudi": Cell(("tests/unit/hudi/test_savepoints.py::", "tests/crash/test_hudi_savepoint.py::")),
        "paimon": Cell(("tests/unit/paimon/tags/test_names.py::", "tests/unit/paimon/tags/test_automatic.py::",
                        "tests/unit/paimon/tags/test_lifetimes.py::", "tests/crash/test_paimon_tags.py::",
                        "tests/interop/test_paimon_tags_outside.py::", f"{GOLDEN_PAIMON}test_tag")),
        "iceberg": Cell((
            "tests/unit/iceberg/commit/test_kinds.py::test_a_branch_of_its_own",
            "tests/interop/test_iceberg_metadata_outside.py::",
        )),
    }),
    Row("branches made, removed, followed", "`table.branch`, `table.fast_forward`", {
        "hudi": Cell(none="the format has no such thing"),
        "paimon": Cell(("tests/unit/paimon/test_branches.py::", "tests/crash/test_paimon_branches.py::",
                        "tests/interop/test_paimon_outside.py::test_a_branch_of_ours_is_followed_by_both")),
        "iceberg": Cell(("tests/unit/cli/test_refs.py::test_branches",
                         "tests/unit/iceberg/commit/test_kinds.py::test_a_branch_of_its_own")),
    }),
    Row("back at a tag, an instant or a snapshot", "`table.rollback`", {
        "hudi": Cell((f"{HUDI}TestRollback", "tests/crash/test_hudi_restore.py::", "tests/unit/hudi/test_rollback.py::",
                      "tests/interop/test_hudi_lives_outside.py::")),
        "paimon": Cell((f"{PAIMON}TestRollback", "tests/crash/test_paimon_rollback.py::",
                        "tests/unit/paimon/test_rollback.py::")),
        "iceberg": Cell((f"{ICEBERG}TestRollback", "tests/unit/iceberg/test_rollback.py::",
                         "tests/crash/test_iceberg_refs.py::", "tests/golden/test_iceberg_refs.py::")),
    }),
    Row("cherry-picks, staged writes, retention of branches", "`table.cherry_pick`, `table.publish`", {
        "hudi": Cell(none="no branches"),
        "paimon": Cell(none="branches and tags alone"),
        "iceberg": Cell((
            "tests/unit/iceberg/test_refs.py::", "tests/unit/iceberg/catalog/test_refs.py::",
            "tests/crash/test_iceberg_refs.py::", "tests/golden/test_iceberg_refs.py::",
            "tests/interop/test_iceberg_refs_outside.py::",
        )),
    }),
    Row("files added as they are", "`table.add_files`", {
        "iceberg": Cell((
            "tests/unit/iceberg/add_files/test_run.py::", "tests/interop/test_iceberg_brought_outside.py::",
        )),
    }),
    Row("a folder of files made a table, metadata registered", "`lakebed.snapshot`, `.migrate`, `.register`", {
        "iceberg": Cell((
            "tests/unit/iceberg/migrate/test_folder.py::", "tests/unit/iceberg/catalog/test_creation.py::",
            "tests/interop/test_iceberg_brought_outside.py::",
        )),
    }),
    Row("metadata for a copy at another place", "`table.rewrite_table_path`", {
        "iceberg": Cell((
            "tests/unit/iceberg/relocate/test_copy.py::", "tests/interop/test_iceberg_brought_outside.py::",
        )),
    }),
    Row("statistics of columns and partitions", "`table.compute_table_stats`, `table.compute_partition_stats`", {
        "iceberg": Cell((
            "tests/unit/iceberg/statistics/test_columns.py::", "tests/unit/iceberg/statistics/test_partitions.py::",
            "tests/interop/test_iceberg_brought_outside.py::",
        )),
    }),
    Row("lost and damaged files found and dropped", "`table.repair`", {
        "iceberg": Cell(("tests/unit/iceberg/repair/test_run.py::", "tests/crash/test_iceberg_repair.py::",
                         "tests/interop/test_iceberg_repair_outside.py::")),
    }),
    Row("columns and options changed", "`table.alter`", {
        "paimon": Cell(("tests/unit/paimon/alter/test_plan.py::", "tests/unit/paimon/alter/test_run.py::",
                        "tests/golden/test_paimon_alter.py::", "tests/crash/test_paimon_alter.py::",
                        "tests/interop/test_paimon_catalogs_outside.py::")),
        "iceberg": Cell(("tests/unit/iceberg/alter/test_plan.py::", "tests/unit/iceberg/alter/test_run.py::",
                         "tests/crash/test_iceberg_alter.py::", "tests/property/test_iceberg_alter.py::",
                         "tests/unit/iceberg/alter/test_union.py::", "tests/unit/iceberg/catalog/test_alter.py::",
                         "tests/golden/test_iceberg_alter.py::", "tests/interop/test_iceberg_alter_readers.py::")),
    }),
    Row("catalogs: tables listed, created, dropped", "`lakebed.catalog`", {
        "hudi": Cell(none="the format has no catalogs"),
        "paimon": Cell(("tests/unit/paimon/catalog/test_catalogs.py::", "tests/unit/paimon/catalog/test_rest.py::")),
        "iceberg": Cell((
            "tests/unit/iceberg/catalog/test_names.py::",
            "tests/interop/test_iceberg_lives_outside.py::test_the_names_in_a_catalog",
        )),
    }),
    Row("inspect", "`table.inspect`", {
        "hudi": Cell(("tests/unit/hudi/archive/test_inspect.py::", "tests/unit/cli/test_inspect.py::")),
        "paimon": Cell(("tests/unit/paimon/test_inspect.py::",)),
        "iceberg": Cell(("tests/unit/iceberg/test_upkeep.py::",)),
    }),
    Row("metadata as tables", "`table.metadata`", {
        "hudi": Cell(("tests/golden/test_hudi_system_tables.py::",)),
        "paimon": Cell(("tests/golden/test_paimon_system_tables.py::",)),
        "iceberg": Cell(("tests/golden/test_iceberg_system_tables.py::",)),
    }),
    Row("SQL functions on Spark", "`SELECT * FROM lakebed_rewrite(...)`", {
        "hudi": Cell(("tests/spark/test_procedures.py::", "tests/spark/test_table_functions.py::")),
        "paimon": Cell(("tests/spark/test_procedures.py::", "tests/spark/test_table_functions.py::")),
        "iceberg": Cell(("tests/spark/test_procedures.py::", "tests/spark/test_table_functions.py::")),
    }),
    Row("Spark batch source", '`format("lakebed")`', {
        "hudi": Cell((f"{SOURCE}test_a_snapshot", f"{SOURCE}test_projection", f"{SOURCE}test_a_range")),
        "paimon": Cell((f"{PAIMON_SPARK}test_a_snapshot", f"{PAIMON_SPARK}test_projection")),
        "iceberg": Cell((f"{ICEBERG_SPARK}test_a_snapshot", f"{ICEBERG_SPARK}test_projection")),
    }),
    Row("Spark streaming source", "`spark.readStream`", {
        "hudi": Cell((f"{SOURCE}test_a_stream",)),
        "paimon": Cell((f"{PAIMON_SPARK}test_a_stream", f"{PAIMON_SPARK}test_a_pipeline")),
        "iceberg": Cell((f"{ICEBERG_SPARK}test_a_stream",)),
    }),
    Row("Spark batch sink", "`lakebed.spark.write`", {
        "hudi": Cell((f"{HUDI_SINK}test_a_frame", f"{HUDI_SINK}test_a_job", f"{HUDI_SINK}test_hudis_sink")),
        "paimon": Cell((
            f"{SINK}test_each_bucket", f"{SINK}test_kinds", f"{SINK}test_the_dataframe_writer",
            f"{PAIMON_SPARK}test_dynamic", f"{PAIMON_SPARK}test_append", f"{PAIMON_SPARK}test_a_static",
        )),
        "iceberg": Cell((
            f"{ICEBERG_SINK}test_files", f"{ICEBERG_SINK}test_the_dataframe_writer", f"{ICEBERG_SINK}test_changes",
        )),
    }),
    Row("Spark streaming sink, exactly once", "`lakebed.spark.write_stream`", {
        "hudi": Cell((KILLED,)),
        "paimon": Cell((KILLED, f"{STREAM_SINK}test_a_checkpoint")),
        "iceberg": Cell((KILLED,)),
    }),
    Row("pipelines", "`lakebed run`", {
        "hudi": Cell((f"{STREAM_SINK}test_a_pipeline", "tests/spark/test_demo.py::", f"{HUDI_SINK}test_a_pipeline")),
        "paimon": Cell((
            f"{STREAM_SINK}test_a_pipeline", f"{PAIMON_SPARK}test_a_pipeline", "tests/interop/test_demo_outside.py::",
        )),
        "iceberg": Cell(("tests/spark/test_iceberg_pipeline.py::",)),
    }),
)  # fmt: skip
"""The grid, from top to bottom."""
