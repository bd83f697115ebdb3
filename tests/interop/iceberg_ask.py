"""Asks Iceberg's own Spark engine (`iceberg_peer.py`); one session a call, so give it all that is to be asked."""

import json
from pathlib import Path
from typing import Any

from tests.interop.conftest import named
from tests.interop.hudi_ask import ask

Rows = list[list[Any]]


def spark_sql(folder: Path, requests: dict[str, list[str]]) -> dict[str, list[Rows]]:
    """The rows of each statement, by the request's name. AssertionError names the first statement that failed."""
    lines = [json.dumps({"name": name, "sql": statements}) for name, statements in requests.items()]
    answers = ask("LAKEBED_ICEBERG_JVM_PYTHON", "iceberg_peer.py", [named("LAKEBED_ICEBERG_JARS"), str(folder)], lines)
    failed = [f"{answer['name']}: {answer['error']}" for answer in answers if answer["error"]]
    assert not failed, "\n".join(failed)
    return {answer["name"]: answer["rows"] for answer in answers}
