"""Writes docs/iceberg-migration.md: every option and table property of Iceberg, and what becomes of it in lakebed.

python -m tests.conformance.iceberg_migration            writes it
python -m tests.conformance.iceberg_migration --check    fails when the page does not say what holds
"""

import sys
from pathlib import Path

from lakebed.formats.iceberg import options as opt
from lakebed.formats.iceberg.unserved import REFUSED
from lakebed.formats.iceberg.write.options import OPTIONS as WRITE_OPTIONS
from tests.conformance.pages import written_or_checked

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "iceberg-migration.md"
LINES = ROOT / "tests" / "unit" / "iceberg" / "iceberg_options.txt"
BEGIN = """\
# From Iceberg's runtime to lakebed, option by option

You have a job that reads with `spark.read.format("iceberg").option(...).load(path)`. Leave out the jar, install
lakebed, and call `lakebed.spark.register(spark)`: the job runs with the options that it has. This page lists every
option of Iceberg's Spark source and every table property, of release 1.12.

- **Served** ones have a description.
- **Refused** ones ask for something that lakebed does not do: an error names the option before a row is read or
  written.
- Those **without effect** change no rows: they tune Iceberg's own engine. A log line names the options that you give,
  once. Table properties without effect stay in the table, for other engines.

An option that neither Iceberg nor lakebed has is an error that names the nearest known one. Unknown table properties
are kept. `lakebed.open`, `table.write` and SQL take the same keys as Spark's options.
[iceberg-read.md](iceberg-read.md), [iceberg-sink.md](iceberg-sink.md) and [sql.md](sql.md) say more.

| in the job before | now |
|---|---|
| the package `iceberg-spark-runtime`, `spark.sql.extensions` | `lakebed.spark.register(spark)` |
| `.format("iceberg").load("db.table")` | `.load("catalog:db.table")` and options `lakebed.catalog.*`, or a path |
| `SELECT * FROM db.table VERSION AS OF 12` | `.option("versionAsOf", "12")`, then a view |
| `CALL catalog.system.rewrite_data_files(...)` | `SELECT * FROM lakebed_rewrite('catalog:db.table')` |
| `CALL catalog.system.expire_snapshots(...)` | `SELECT * FROM lakebed_expire('catalog:db.table')` |
| `df.writeTo("catalog.db.table").append()` | `lakebed.spark.write(df, "catalog:db.table")` |
"""
_COLUMN = "column names after the dot"
SAID = {
    "path": "The table's path, or `catalog:namespace.table`.",
    "snapshot-property": "Prefix: `snapshot-property.NAME` goes into the snapshot's summary.",
    "format-version": "The version of the format: 1 to 3.",
    "write.parquet.row-group-size-bytes": "Bytes of a row group.",
    "write.parquet.page-size-bytes": "Bytes of a page.",
    "write.parquet.page-row-limit": "Rows of a page at most.",
    "write.parquet.dict-size-bytes": "Bytes of a dictionary at most.",
    "write.parquet.compression-codec": "Compression of Parquet files.",
    "write.parquet.compression-level": "Level of that compression.",
    "write.parquet.bloom-filter-enabled.column.": f"Whether a column has bloom filters ({_COLUMN}).",
    "write.parquet.bloom-filter-fpp.column.": f"How often its filter may be wrong ({_COLUMN}).",
    "write.avro.compression-codec": "Compression of Avro files.",
    "write.orc.compression-codec": "Compression of ORC files.",
    "write.metadata.compression-codec": "Compression of metadata files.",
    "write.metadata.previous-versions-max": "How many earlier metadata files the table remembers.",
    "write.metadata.delete-after-commit.enabled": "Whether a commit removes metadata files that it forgets.",
    "write.metadata.metrics.max-inferred-column-defaults": "From how many columns on the others have no bounds.",
    "write.metadata.metrics.default": "Which counts and bounds columns have in manifests.",
    "write.metadata.metrics.column.": f"The same for one column ({_COLUMN}).",
    "schema.name-mapping.default": "Field ids of columns in files without ids, by name.",
    "write.delete.target-file-size-bytes": "Target size of rewritten position delete files, bytes.",
    "encryption.key-id": "Refused: lakebed neither reads nor writes encrypted tables.",
    "write.location-provider.impl": "Refused by writes: a Java class chooses where files lie.",
}
"""Keys that no declaration describes."""
_PLACE = "Where files lie. A table may name places outside of its own only as [security.md](security.md) says."


def main(arguments: list[str]) -> int:
    """0 when the page holds, or now holds, what is so."""
    return written_or_checked(PAGE, rendered(), arguments)


def rendered() -> str:
    """The page."""
    lines = [line.split() for line in LINES.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    titles = {"read": "Options of reads", "write": "Options of writes", "property": "Table properties"}
    return BEGIN + "".join(
        _section(title, [(key, group) for kind, key, group in lines if kind == name]) for name, title in titles.items()
    )


def _section(title: str, keys: list[tuple[str, str]]) -> str:
    rows = "".join(f"| `{key}` | {_told(key, group)} |\n" for key, group in sorted(keys) if group != "tuning")
    without = ",\n".join(f"`{key}`" for key, group in sorted(keys) if group == "tuning")
    return f"\n## {title}\n\n| key | here |\n|---|---|\n{rows}\nWithout effect: {without}.\n"


def _told(key: str, group: str) -> str:
    if key in SAID:
        return SAID[key]
    if group == "place":
        return _PLACE
    if group == "refused":
        refused = next((option for option in REFUSED if option.key == key), None)
        if refused is None:
            return "Refused: metadata has a field for it."
        accepted, _, instead = refused.expected.partition(": ")
        return f"Refused{'' if accepted == 'nothing' else f' unless {accepted}'}: {instead}."
    known = (opt.OPTIONS + WRITE_OPTIONS).options
    option = next(each for each in known if key in (each.key, *each.aliases))
    return option.doc.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
