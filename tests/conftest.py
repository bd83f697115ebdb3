"""What holds for every test: one JVM for all that start Spark, and property tests that a slow machine does not fail."""

import os
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK = "tests/spark/"
"""The folder of the tests that start Spark."""

hypothesis.settings.register_profile("any-machine", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("any-machine")


class SparkTogether(LoadScopeScheduling):
    """Gives all tests of Spark to one worker, and every other test to whoever is free.

    Two JVMs at once would slow each other down, and Spark gives the Python of a stream ten seconds to start, no more.
    """

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkTogether:
    return SparkTogether(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(SPARK):
            item.add_marker(pytest.mark.timeout(900), append=False)  # a busy machine takes minutes to start a JVM
