"""One call of a procedure of Iceberg's own engine, for benches; runs in an interpreter with pyspark
(LAKEBED_ICEBERG_JVM_PYTHON) and Iceberg's jars (LAKEBED_ICEBERG_JARS).

    python -m bench.iceberg_procedure_peer WAREHOUSE CALL [FIRST ...]

The catalog `had` has the tables below the warehouse. The statements FIRST run before, and do not count.
"""

import json
import os
import sys
import tempfile
import time

from bench.iceberg_jvm_peer import below, peak_mb, processor_seconds, session


def main(warehouse: str, call: str, *first: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        spark = session(warehouse, scratch)
        for statement in ("SELECT count(*) FROM range(1000)", *first):
            spark.sql(statement).collect()
        wall, cpu = time.perf_counter(), processor_seconds()
        answer = spark.sql(f"CALL had.system.{call}").collect()
        line = {
            "seconds": round(time.perf_counter() - wall, 2),
            "cpu_seconds": round(processor_seconds() - cpu, 2),
            "peak_mb": max(map(peak_mb, below(str(os.getpid())))),
            "answer": [str(row.asDict()) for row in answer[:1]],
        }
        spark.stop()
    print(json.dumps(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
