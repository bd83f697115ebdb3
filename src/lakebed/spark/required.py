"""PySpark is here and new enough, or an error says how to get it. Imported before anything that needs it."""

from lakebed.errors import RuntimeMissingError

LEAST = (4, 2)
"""The oldest PySpark that has all that lakebed uses."""

try:
    from pyspark import __version__ as version
except ModuleNotFoundError as error:
    raise RuntimeMissingError(
        "lakebed.spark needs PySpark, which is not installed here",
        todo="Run pip install 'lakebed[spark]'. Tables that lakebed.open gives need no Spark",
    ) from error
if tuple(int(part) for part in version.split(".")[:2]) < LEAST:
    raise RuntimeMissingError(
        f"lakebed.spark needs PySpark {'.'.join(map(str, LEAST))} or newer, and this is {version}",
        why="older releases lack data sources that exchange Arrow batches, repartitionById and limits of streams",
        todo="Run pip install 'lakebed[spark]' in an environment of its own. Or read and write without Spark: tables"
        " that lakebed.open gives need none, and spark.createDataFrame(table.to_pandas()) takes their rows",
    )
