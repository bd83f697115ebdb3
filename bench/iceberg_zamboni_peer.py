"""One run of iceberg-zamboni over a table that lies at a path, for `bench/iceberg_rewrite.py`; runs in zamboni's own
interpreter, which needs nothing of lakebed (`pip install iceberg-zamboni==0.7.0 'pyiceberg[sql-sqlite]==0.12.0'`).

    python iceberg_zamboni_peer.py TABLE_FOLDER
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from zamboni import CompactionConfig, TableCompactor
from zamboni.session import CatalogSession


def main(folder: str) -> None:
    newest = max(Path(folder, "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name.split(".")[0][1:]))
    with tempfile.TemporaryDirectory() as scratch:
        catalog = SqlCatalog("bench", uri=f"sqlite:///{scratch}/catalog.db", warehouse=folder)
        catalog.create_namespace("db")
        catalog.register_table("db.bench", f"file://{newest}")
        session = CatalogSession.from_catalog(catalog, threads=2)
        began, cpu = time.perf_counter(), time.process_time()
        result = TableCompactor(session, "db.bench", config=CompactionConfig(min_input_files=2)).execute()
        line = {
            "wall_seconds": round(time.perf_counter() - began, 2),
            "cpu_seconds": round(time.process_time() - cpu, 2),
            "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
            "files": result.rewritten_data_files,
            "files_after": result.added_data_files,
            "mb_after": round(result.added_bytes / 1e6, 1),
        }
    print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1])
