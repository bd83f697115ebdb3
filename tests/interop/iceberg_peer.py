"""Iceberg's own engine: one Spark that runs SQL on hadoop tables and on tables of catalogs.

    python iceberg_peer.py JARS OWN_FOLDER < REQUESTS

A request is one JSON object a line. One with `places`, [FOLDER, perhaps rest=ADDRESS, perhaps hive=ADDRESS], closes
the catalogs of the session so far and begins a session; where `places` is null it begins none. In a session catalog
`had` finds hadoop tables: `had.db.NAME` lies at FOLDER/db/NAME. Catalog `ice` is FOLDER/catalog.db (JdbcCatalog V1,
which pyiceberg's SqlCatalog shares). Catalogs `rest` and `hive` are those at the given addresses.

Any other request has a name, sql (statements), and perhaps metadata: the location of a metadata file, whose table is
the view `given` for the statements. The answer is one JSON object behind the mark `ANSWER `: the rows of each
statement, or the error of the first that fails. Values that JSON has not are text; bytes are hex. Do not commit to a
SQLite catalog from outside before its session ends: that keeps a read lock on it.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

JARS, OWN = sys.argv[1:]
CATALOGS = ("ice", "had", "rest", "hive")
# Starts sooner, and small tables need no more. A small heap that grows is collected all the time.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1200m -Xmn800m -XX:MetaspaceSize=256m"


def started():
    """Two threads, no log below errors: answers go to standard output."""
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": os.pathsep.join(str(jar) for jar in sorted(Path(JARS).glob("*.jar"))),
        "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC -Djava.io.tmpdir={OWN} {QUICK}",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{OWN}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def opened(folder, *places):
    """A session with the catalogs of a folder and those at some addresses."""
    session = spark.newSession()
    catalogs = {
        "ice": {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": f"jdbc:sqlite:{folder}/catalog.db",
            "jdbc.schema-version": "V1",
            "warehouse": folder,
        },
        "had": {"type": "hadoop", "warehouse": folder},
    }
    for kind, _, address in (place.partition("=") for place in places):
        catalogs[kind] = {"type": kind, "uri": address}
    for name, settings in catalogs.items():
        session.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in {"cache-enabled": "false", **settings}.items():
            session.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    return session


def close(session):
    """Close those of its catalogs that a session has used."""
    manager = session._jsparkSession.sessionState().catalogManager()
    for (name,) in session.sql("SHOW CATALOGS").collect():
        if name in CATALOGS:
            manager.catalog(name).icebergCatalog().close()


def plain(value):
    """A value that JSON can hold."""
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    if isinstance(value, dict):
        return sorted([plain(key), plain(item)] for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


spark = started()
session = None
for line in sys.stdin:
    request = json.loads(line)
    if "places" in request:
        if session:
            close(session)
        session = opened(*request["places"]) if request["places"] else None
        print("ANSWER {}", flush=True)
        continue
    answer = {"name": request["name"], "rows": [], "error": ""}
    for statement in request["sql"]:
        try:
            if "metadata" in request:
                session.read.format("iceberg").load(request["metadata"]).createOrReplaceTempView("given")
            answer["rows"].append([plain(list(row)) for row in session.sql(statement).collect()])
        except Exception as error:
            answer["error"] = f"{statement}: {str(error)[:2000]}"
            break
    print("ANSWER " + json.dumps(answer), flush=True)
