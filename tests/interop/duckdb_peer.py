"""DuckDB with its Iceberg extension, which comes as Python packages: nothing is fetched when it runs.

    python duckdb_peer.py < REQUESTS

A request is one JSON object a line: name, metadata (the location of a metadata file), to (a file that is written with
all rows as an Arrow stream). The answer is one JSON object behind the mark `ANSWER `: name, error.
"""

import importlib
import json
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

duck = duckdb.connect(config={"threads": 2})
duck.execute("SET TimeZone = 'UTC'")
for extension in ("httpfs", "avro", "iceberg"):
    package = Path(importlib.import_module(f"duckdb_extension_{extension}").__file__).parent
    duck.execute(f"LOAD '{next(package.rglob(f'{extension}.duckdb_extension'))}'")
for line in sys.stdin:
    request = json.loads(line)
    error = ""
    try:
        rows = duck.execute("SELECT * FROM iceberg_scan(?)", [request["metadata"].removeprefix("file:")])
        batches = rows.fetch_record_batch()
        with pa.OSFile(request["to"], "wb") as sink, pa.ipc.new_stream(sink, batches.schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except Exception as failure:
        error = " ".join(str(failure).split())[:500]
    print("ANSWER " + json.dumps({"name": request["name"], "error": error}), flush=True)
