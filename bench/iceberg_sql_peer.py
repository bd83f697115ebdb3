"""SQL statements of Iceberg's own engine, for benches; runs in an interpreter with pyspark (LAKEBED_ICEBERG_JVM_PYTHON)
and Iceberg's jars (LAKEBED_ICEBERG_JARS).

    python -m bench.iceberg_sql_peer '{"warehouse": FOLDER, "first": [STATEMENT, ...], "counted": [STATEMENT, ...]}'

The catalog `had` has the tables below the warehouse, and `warm` is for statements that only warm the JVM up. Those of
`first` do not count.
"""

import json
import os
import sys
import tempfile
import time

from bench.iceberg_jvm_peer import below, peak_mb, processor_seconds, session


def main(given: str) -> None:
    work = json.loads(given)
    with tempfile.TemporaryDirectory() as scratch:
        spark = session(work["warehouse"], scratch)
        for statement in ("SELECT count(*) FROM range(1000)", *work["first"]):
            spark.sql(statement).collect()
        wall, cpu = time.perf_counter(), processor_seconds()
        answers = [spark.sql(statement).collect() for statement in work["counted"]]
        line = {
            "seconds": round(time.perf_counter() - wall, 2),
            "cpu_seconds": round(processor_seconds() - cpu, 2),
            "peak_mb": max(map(peak_mb, below(str(os.getpid())))),
            "load": round(os.getloadavg()[0], 1),
            "answer": [str(row.asDict()) for row in answers[-1][:1]],
        }
        spark.stop()
    print(json.dumps(line))


if __name__ == "__main__":
    main(sys.argv[1])
