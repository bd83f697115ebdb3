"""The order `history` of `hudi_lives_peer.py`: a release of Hudi plays a history and says what the table holds after
each step.

A history has a name, options, steps; a step is [operation, schema, [row, ...], {options}]. A step that the engine
itself fails at stays in the table as that left it.
"""

import json
import re
import sys
from pathlib import Path

OPTIONS = {
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.write.auto.upgrade": "false",
}
WRITE = re.compile(r"(\d{17})(?:_(\d{17}))?\.(commit|deltacommit|replacecommit)")
DERIVED = [
    "*",
    "cast(n / 7 as decimal(12, 3)) as dec",
    "timestamp_micros(ts * 86399999999) as at",
    "date_add(date'1969-12-01', n * 100) as day",
]


def text(value):
    return None if value is None else str(value)


def completed(path):
    folder = Path(path, ".hoodie")
    names = [p.name for p in (*folder.glob("*commit"), *folder.glob("timeline/*commit"))]
    return sorted(m[2] or m[1] for m in map(WRITE.fullmatch, names) if m)


def rows(spark, path):
    try:
        frame = spark.read.format("hudi").load(path).drop("_hoodie_file_name", "_hoodie_commit_seqno")
        found = [row.asDict(True) for row in frame.collect()]
    except Exception as error:
        print(f"{path}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return None
    return sorted(json.dumps({name: text(value) for name, value in row.items()}, sort_keys=True) for row in found)


def play(spark, folder, history):
    """The history's path in `folder`, and after each step the completed instants of writes and the rows, as JSON texts,
    or null where the engine cannot read what it wrote."""
    path, states = f"{folder}/{history['name']}", []
    for number, (operation, schema, content, more) in enumerate(history["steps"]):
        options = {**OPTIONS, **history["options"], **more, "hoodie.table.name": history["name"]}
        options["hoodie.datasource.write.operation"] = operation
        frame = spark.createDataFrame([tuple(row) for row in content], schema).selectExpr(*DERIVED).coalesce(1)
        try:
            frame.write.format("hudi").options(**options).mode("append" if number else "overwrite").save(path)
        except Exception as error:
            print(f"{path}: {operation}: {str(error)[:300]}", file=sys.stderr)
        states.append([completed(path), rows(spark, path)])
    return {"name": history["name"], "path": path, "states": states}
