"""Iceberg's own engine: one Spark session that runs SQL on hadoop tables and on tables of catalogs.

    python iceberg_peer.py JARS FOLDER [rest=ADDRESS] [hive=ADDRESS] < REQUESTS

Catalog `had` finds hadoop tables: `had.db.NAME` lies at FOLDER/db/NAME. Catalog `ice` is FOLDER/catalog.db (JdbcCatalog
V1, which pyiceberg's SqlCatalog shares). Catalogs `rest` and `hive` are those at the given addresses. A request is one
JSON object a line: name, sql (statements), and perhaps metadata: the location of a metadata file, whose table is the
view `given` for the statements. The answer is one JSON object a request behind the mark `ANSWER `: the rows of
each statement, or the error of the first that fails. Values that JSON has not are text; bytes are hex. Do not commit to
a SQLite catalog from outside while this runs: the session keeps a read lock on it.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

JARS, FOLDER, *PLACES = sys.argv[1:]
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts sooner, and small tables need no more


def session():
    """Two threads, no log below errors: answers go to standard output."""
    builder = SparkSession.builder.master("local[2]")
    catalogs = {
        "ice": {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{FOLDER}/catalog.db",
            "jdbc.schema-version": "V1",
            "warehouse": FOLDER,
        },
        "had": {"type": "hadoop", "warehouse": FOLDER},
    }
    for kind, _, address in (place.partition("=") for place in PLACES):
        catalogs[kind] = {"type": kind, "uri": address}
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in sorted(Path(JARS).glob("*.jar"))),
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Djava.io.tmpdir={FOLDER} {QUICK}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{FOLDER}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        **{f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog" for name in catalogs},
        **{f"spark.sql.catalog.{name}.cache-enabled": "false" for name in catalogs},
        **{f"spark.sql.catalog.{n}.{key}": value for n, found in catalogs.items() for key, value in found.items()},
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def plain(value):
    """A value that JSON can hold."""
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, dict):
        return sorted([plain(key), plain(item)] for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


spark = session()
for line in sys.stdin:
    request = json.loads(line)
    answer = {"name": request["name"], "rows": [], "error": ""}
    for statement in request["sql"]:
        try:
            if "metadata" in request:
                spark.read.format("iceberg").load(request["metadata"]).createOrReplaceTempView("given")
            answer["rows"].append([plain(list(row)) for row in spark.sql(statement).collect()])
        except Exception as error:
            answer["error"] = f"{statement}: {str(error)[:2000]}"
            break
    print("ANSWER " + json.dumps(answer), flush=True)
