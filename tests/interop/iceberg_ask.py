"""Asks Iceberg's own Spark engine (`iceberg_peer.py`): one process a release for all tests, one session a call."""

import json
from pathlib import Path
from typing import Any

from tests.interop.conftest import HERE, Peer, named
from tests.interop.kept import end, kept

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
    name = f"iceberg {spark}"
    peer = kept(name, lambda own: started(spark, own))
    try:
        spark_answer(peer, {"places": [str(folder), *([f"rest={rest}"] if rest else [])]})
        answers = {key: spark_answer(peer, {"name": key, "sql": statements}) for key, statements in requests.items()}
        spark_answer(peer, {"places": None})
    except BaseException:  # an answer that nobody took would be that to the next request
        end(name)
        raise
    return answers


def spark_answer(peer: Peer, request: dict[str, Any]) -> dict[str, Any]:
    """The answer to one request."""
    answer: dict[str, Any] = json.loads(peer.ask(json.dumps(request), end="ANSWER ")[-1])
    return answer


def started(release: str, own: Path) -> Peer:
    """A process of one release of Spark without a session. It keeps its files, and what it says, in `own`."""
    python, jars = (named(variable) for variable in ENGINES[release])
    setting = ["env", "TZ=UTC", f"PYSPARK_PYTHON={python}"]
    return Peer([*setting, python, str(HERE / "iceberg_peer.py"), jars, str(own)], own)
