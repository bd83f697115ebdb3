"""The order `story` of `hudi_lives_peer.py`: a release of Hudi plays a story of writes on a fresh table and reads it
back.

A story has a name, options, steps, and its schema where that is not the one below; a step is
[operation, [row, ...], {options}].
"""

import itertools
import re
from pathlib import Path

SCHEMA = "id string, ts long, part string, x string, n int"
OPTIONS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.metadata.enable": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.index.type": "SIMPLE",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
}
COMPLETED = re.compile(r"(\d{17})(?:_(\d{17}))?\.(commit|deltacommit|replacecommit)")


def commits(path):
    """[requested, completed] of each completed write, by requested time."""
    folder = Path(path, ".hoodie")
    names = [p.name for p in (*folder.glob("*commit"), *folder.glob("timeline/*commit"))]
    return sorted([m[1], m[2] or ""] for m in map(COMPLETED.fullmatch, names) if m)


def rows(spark, path, schema, options=()):
    try:
        found = spark.read.format("hudi").options(**dict(options)).load(path)
        columns = ["_hoodie_commit_time", *(column.split()[0] for column in schema.split(", "))]
        return sorted((list(row) for row in found.select(columns).collect()), key=lambda row: row[1])
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


def play(spark, folder, story):
    """The story's path in `folder`, its commits, the snapshot, the rows of each range between two commits, or the error
    where the release cannot read one, and its changes where it logs them."""
    path, schema = f"{folder}/{story['name']}", story.get("schema", SCHEMA)
    for number, (operation, content, more) in enumerate(story["steps"]):
        options = {**OPTIONS, **story["options"], **more, "hoodie.table.name": story["name"]}
        options["hoodie.datasource.write.operation"] = operation
        frame = spark.createDataFrame([tuple(row) for row in content], schema).coalesce(1)
        frame.write.format("hudi").options(**options).mode("append" if number else "overwrite").save(path)
    done = commits(path)
    moments = [completed or requested for requested, completed in done]
    ranges = {
        f"{low}_{high}": rows(
            spark,
            path,
            schema,
            {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": low,
                "hoodie.datasource.read.end.instanttime": high,
            },
        )
        for low, high in itertools.pairwise(moments)
    }
    cdc = None
    if story["options"].get("hoodie.table.cdc.enabled"):
        found = (
            spark.read.format("hudi")
            .options(
                **{
                    "hoodie.datasource.query.type": "incremental",
                    "hoodie.datasource.query.incremental.format": "cdc",
                    "hoodie.datasource.read.begin.instanttime": "000",
                }
            )
            .load(path)
        )
        cdc = [list(row) for row in found.select("op", "ts_ms", "before", "after").collect()]
    return {
        "name": story["name"],
        "path": path,
        "commits": done,
        "snapshot": rows(spark, path, schema),
        "ranges": ranges,
        "cdc": cdc,
    }
