"""Asks Iceberg's own Spark engine (`iceberg_peer.py`); one session a call, so give it all that is to be asked."""

import json
from pathlib import Path
from typing import Any

from tests.interop.conftest import named
from tests.interop.hudi_ask import ask

Rows = list[list[Any]]
ENGINES = {
    "4.0": ("LAKEBED_ICEBERG_JVM_PYTHON", "LAKEBED_ICEBERG_JARS"),
    "4.1": ("LAKEBED_ICEBERG_JVM_41_PYTHON", "LAKEBED_ICEBERG_41_JARS"),
}
"""By the version of Spark, the variables that name its interpreter and Iceberg's jars for it."""


def spark_sql(
    folder: Path, requests: dict[str, list[str]], spark: str = "4.0", rest: str = ""
) -> dict[str, list[Rows]]:
    """The rows of each statement, by the request's name. AssertionError names the first statement that failed."""
    answers = spark_answers(folder, requests, spark, rest)
    failed = [f"{name}: {answer['error']}" for name, answer in answers.items() if answer["error"]]
    assert not failed, "\n".join(failed)
    return {name: answer["rows"] for name, answer in answers.items()}


def spark_answers(
    folder: Path, requests: dict[str, list[str]], spark: str = "4.0", rest: str = ""
) -> dict[str, dict[str, Any]]:
    """For each request the `rows` of its statements up to the first that failed, and the `error` of that, "" for
    none."""
    python, jars = ENGINES[spark]
    lines = [json.dumps({"name": name, "sql": statements}) for name, statements in requests.items()]
    answers = ask(python, "iceberg_peer.py", [named(jars), str(folder), *([f"rest={rest}"] if rest else [])], lines)
    return {answer["name"]: answer for answer in answers}
