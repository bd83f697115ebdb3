"""What holds for every test: one JVM for all that start Spark, and property tests that a slow machine does not fail."""

import os

import hypothesis
import pytest

hypothesis.settings.register_profile("any-machine", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("any-machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With pytest-xdist (--dist loadgroup), all that starts a JVM shares one worker.

    Two at once would slow each other down, and Spark gives the Python of a stream ten seconds to start, no more.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.nodeid.startswith("tests/spark/"):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(900), append=False)  # a busy machine takes minutes to start a JVM
