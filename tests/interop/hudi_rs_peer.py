"""hudi-rs in its own interpreter: the snapshot of each table that is named on standard input, as JSON behind `ANSWER `.

Columns may stand behind the table's path, each after a tab; otherwise rows are [commit time, id, ts, part, x, n]. They
are sorted; an error is its text.
"""

import json
import sys

from hudi import HudiReadOptions, HudiTableBuilder

COLUMNS = ("_hoodie_commit_time", "id", "ts", "part", "x", "n")

for line in sys.stdin:
    path, *columns = line.rstrip("\n").split("\t")
    try:
        batches = HudiTableBuilder.from_base_uri(path).build().read(HudiReadOptions())
        found = sorted([row[name] for name in columns or COLUMNS] for batch in batches for row in batch.to_pylist())
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print("ANSWER " + json.dumps(found, default=str), flush=True)
