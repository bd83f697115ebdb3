"""The causes of each class of error, and what to do: the tables of docs/errors.md."""

from collections.abc import Mapping, Sequence

CAUSES: Mapping[str, Sequence[tuple[str, str]]] = {
    "LakebedError": [
        ("any of the causes below", "catch it where one handler is enough; its text is one line"),
    ],
    "UsageError": [
        ("an argument is missing, of the wrong type, or does not go with another", "read `todo`: it names what fits"),
        ("a DataFrame names no path, or a table of another format", 'write `.format("lakebed")`'),
        ("a file of the command line cannot be written", "name a file in a folder that exists"),
    ],
    "OptionError": [
        ("a key that neither the format nor lakebed has", "take the nearest one, which the error names (`nearest`)"),
        ("a value that is not a number, a size, a time or one of the words", "give what `why` expects"),
        ("two options that exclude each other, or one that this kind of read cannot have", "leave one of them out"),
        (
            "an option of a bundle that asks for what lakebed does another way",
            "see the migration pages of [Hudi](hudi-migration.md), [Paimon](paimon-migration.md) and "
            "[Iceberg](iceberg-migration.md)",
        ),
    ],
    "PredicateError": [
        ("a column that the table does not have", "take one of the columns that the error lists"),
        ("SQL that cannot be parsed, or functions that conditions cannot have", "see [where.md](where.md)"),
        ("values of types that cannot be compared", "cast the literal, for example `DATE '2026-11-30'`"),
    ],
    "PipelineFileError": [
        ("an unknown key, a missing one, or a wrong value", "mend the key that the error names (`key`)"),
        ("two sections that do not go together", "try the file without Spark: `lakebed run --check FILE`"),
    ],
    "TableNotFoundError": [
        ("a misspelt path", "take the one that the error suggests"),
        ("the path of a partition, of a warehouse, or of a plain folder of files", "give the table's root folder"),
        ("a catalog's table that was dropped or renamed", "list the tables of its namespace"),
    ],
    "TableExistsError": [
        ("`create`, `register` or `migrate` where a table is", "open it with `lakebed.open`, or choose another place"),
    ],
    "NotInHistoryError": [
        ("a tag, branch, snapshot or instant that never was", "see what there is: `lakebed history`, `lakebed refs`"),
        ("a snapshot that expired, or an instant that was cleaned or rolled back", "read a newer one"),
        ("a time before the table's first commit", "give a later time; times are UTC unless they say otherwise"),
    ],
    "DataCleanedError": [
        ("an expiry or clean removed files while they were read", "read again: the newest snapshot is whole"),
        ("a stream fell behind what the table keeps", "start it anew, and keep more history"),
        ("something other than the table's engines removed files", "`lakebed repair TABLE --dry-run` tells what"),
    ],
    "UnsupportedError": [
        ("an option or table property that is known but not served", "leave it out, or use the format's engine"),
        ("a table version, file format or type that lakebed lacks", "see the grid in the README"),
        ("a table that was copied or moved", "open it where its metadata says, or `table.relocate()`"),
        ("an encrypted table", "read it with the format's own engine"),
    ],
    "SchemaError": [
        ("a column that the table lacks, or one that is missing", "fit the rows, or `table.alter`"),
        ("a column of another type", "cast it as the error says"),
        ("a read of a column that the table does not have", "take one of the columns that the error lists"),
    ],
    "CorruptError": [
        ("a file that was cut short by a full disk or a broken copy", "restore the file (`file`) from a copy"),
        ("metadata that a foreign program wrote or changed", "roll back to a whole snapshot: `lakebed rollback`"),
        ("a data file whose bytes are no longer those that were written", "`lakebed repair TABLE` commits without it"),
    ],
    "StorageError": [
        ("no permission, or wrong credentials or region", "see [storage.md](storage.md); `lakebed doctor` tries it"),
        ("a bucket or endpoint that does not exist", "check the location and `lakebed.storage.setting.*`"),
        ("a full disk", "make room: nothing of the write is visible, and an expiry removes its leftovers"),
    ],
    "RetryableError": [
        ("no answer, too many requests, or an error of the server", "try again; `lakebed.storage.*` bounds how long"),
        ("the table changed too often while it was looked at", "try again"),
    ],
    "NotWrittenError": [
        ("the store refused to keep a file", "mend what `why` says, then write again: nothing of the write is visible"),
    ],
    "CommitConflictError": [
        ("another writer replaced or deleted what this commit builds on", "read the table again and start over"),
        ("more races in a row than `commit.max-retries` and its like allow", "write again, or raise the limit"),
        ("writers of a Hudi table without a common lock", "give all the same lock: [hudi-write.md](hudi-write.md)"),
    ],
    "CommitUnknownError": [
        (
            "the store gave no answer to the put that publishes the commit",
            "commit the same messages again with `filter_and_commit`, or look for the commit in `lakebed history`; "
            "remove no files before",
        ),
    ],
    "CallbackError": [
        ("a callback of yours raised it", "see the note in the commit's result; the next commit calls it again"),
    ],
    "RuntimeMissingError": [
        ("no Java of version 17 or newer", "`pip install 'lakebed[jvm]'`, or set JAVA_HOME"),
        ("workers or a Connect server without lakebed", "install it there, or call `lakebed.spark.ship(spark)`"),
        ("workers with another Python than the driver", "set PYSPARK_PYTHON to the driver's"),
    ],
    "ReadWarning": [
        ("a stream has fallen behind, or a range lacks rows that were cleaned", "keep more history, or start it anew"),
        ("a part of a condition rules nothing out, so that more files are read", "write it as in [where.md](where.md)"),
        ("a table that was copied: its files are read from where it was opened", "open it where its metadata says"),
    ],
    "CorruptBlocksWarning": [
        ("a writer of a Hudi log died in the middle of a block", "nothing: no row is lost; a compaction removes them"),
    ],
}  # fmt: skip
"""By the name of the class: a cause, and what to do."""
