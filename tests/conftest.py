"""What holds for every test: which ones are slow, one JVM for all that start Spark, and property tests that a slow
machine doesn't fail.

A test is slow (marker `slow`, left out by `./run test --fast`) when it is marked so, when it lies in one of the folders
of `SLOW_FOLDERS`, when it checks a promise of a verb with many examples (`SLOW_PROMISES`), or when it is the same test
on one more golden table (all but those of `tests.golden.DAILY`).
"""

import gc
import importlib
import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from lakebed.kernel.commit import turns
from lakebed.kernel.observers import observers
from tests import pyspark_release
from tests.golden import DAILY, names
from tests.objectstore.server import StoreServer

HERE = Path(__file__).parent
SPARK = "tests/spark/"
"""The folder of the tests that start Spark."""
INTEROP = ("tests/interop/", "tests/programs/")
"""The folders of `./run interop`."""
HUDI = "tests/interop/test_hudi_"
"""The files whose tests share a process of each release of Hudi, on Spark."""
PATIENCE = 900
"""Seconds: a busy machine takes minutes to start a JVM."""
PROGRAMS = (f"{SPARK}test_demo.py",)
"""Those that start it as a program of its own. The others have one session together."""
SHARING = ("tests/unit/iceberg/rewrite/test_memory.py", "tests/unit/test_imports.py")
"""Files whose tests share what takes seconds to make."""
WITHOUT_SPARK = tuple(
    f"{SPARK}test_{name}.py"
    for name in ("java", "pipeline_file", "pipeline_sql", "pushdown", "read_task", "ship", "types", "upkeep")
)
"""Those that need no Spark after all."""
RARELY = frozenset(name for table_format in ("hudi", "paimon", "iceberg") for name in names(table_format)) - DAILY
SLOW_FOLDERS = (SPARK, "tests/crash/", "tests/property/", *INTEROP)
SLOW_PROMISES = {
    "test_where_keeps_what_a_filter_keeps",
    "test_many_writes_are_a_dict",
    "test_each_range_leads_from_snapshot_to_snapshot",
    "test_both_ends_are_exact",
    "test_columns_and_where",
    "test_a_batch_planned_again_is_the_same",
    "test_it_resumes_from_each_position_in_another_process",
}
"""Tests of the public conformance suites, which carry no marker of ours."""

hypothesis.settings.register_profile("any-machine", deadline=None, derandomize=bool(os.environ.get("CI")))
hypothesis.settings.load_profile("any-machine")


def pytest_configure(config: pytest.Config) -> None:
    for line in pyspark_release.WARNINGS:
        config.addinivalue_line("filterwarnings", line)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    except Exception as error:
        pyspark_release.skip_refused(error)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep what is there after collection, half a million objects, out of the garbage collector's sight: each of its
    full runs would look through all of them, hundreds of times."""
    gc.disable()
    try:
        import_own_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def import_own_share(config: pytest.Config) -> None:
    """Import the test modules of which this worker is to be the first: in a fresh clone each worker compiles a share,
    and not all of them all. Collection tells what is wrong with a module, and which modules skip themselves."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers < 2 or config.args != config.getini("testpaths"):
        return
    own = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    left_out = {Path(path).absolute() for path in config.getoption("ignore") or ()}
    modules = [file for file in sorted(HERE.rglob("test_*.py")) if not left_out & {file, *file.parents}]
    for file in modules[own::workers]:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(HERE.parent).with_suffix("").parts))


@pytest.fixture(scope="session", autouse=True)
def own_turns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Writers of this process take no turns with those of other processes of tests: what a test counts is its own."""
    folder = tmp_path_factory.mktemp("turns")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turns, "lock_folder", lambda: str(folder))
        yield


@pytest.fixture(autouse=True)
def no_observer_stays() -> Iterator[None]:
    """An observer that outlives its test would be told of the calls of others."""
    yield
    left = [*observers]
    observers.clear()
    assert left == [], "end it with the function that observe.add gave"


@pytest.fixture(scope="session")
def store_server() -> Iterator[StoreServer]:
    """An S3 server behind a proxy that counts and fails: one for a process of tests, started when it is asked for."""
    os.environ["AWS_METADATA_ENDPOINT"] = "http://127.0.0.1:1"  # no test leaves this machine
    server = StoreServer()
    yield server
    server.stop()


class SparkTogether(LoadScopeScheduling):
    """Gives the tests of a group to one worker, and every other test to whoever is free."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or self.alone(nodeid)

    def alone(self, nodeid: str) -> str:
        """What goes to one worker with a test of no group."""
        return nodeid

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a group whose tests are all done: pytest-xdist counts what is left in every group that a worker ever
        had, after each test, which takes longer the more tests there are."""
        group = self._split_scope(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        groups = self.assigned_work.get(node, {})
        if all(groups.get(group, {}).values()):
            groups.pop(group, None)


class FilesTogether(SparkTogether):
    """Gives the tests of a group to one worker, and those of every other file to one."""

    def alone(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SparkTogether | None:
    known = {"load": SparkTogether, "loadfile": FilesTogether}
    return known[config.getoption("dist")](config, log) if config.getoption("dist") in known else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A group takes a worker the longest: workers begin with them, so that the others do not wait for one at the end.
    items.sort(key=lambda item: not group_of(item.nodeid))
    for item in items:
        if item.nodeid.startswith((SPARK, *INTEROP)):
            asked = item.get_closest_marker("timeout")
            if not asked or asked.args[0] < PATIENCE:
                item.add_marker(pytest.mark.timeout(PATIENCE), append=False)
        if is_slow(item):
            item.add_marker(pytest.mark.slow)


def group_of(nodeid: str) -> str:
    """The tests that one worker runs one after the other: those of the shared Spark session, those that start Spark as
    a program, so that few JVMs run at once, those that ask the releases of Hudi, and those of a file that share what
    takes long. "" for a test of no group.

    Spark gives the Python of a stream ten seconds to start: wrap a query that a test starts in `despite_slow_start`.
    """
    if nodeid.startswith(HUDI):
        return "hudi"
    if nodeid.startswith(SHARING):
        return nodeid.partition("::")[0]
    if not nodeid.startswith(SPARK) or nodeid.startswith(WITHOUT_SPARK):
        return ""
    return "programs" if nodeid.startswith(PROGRAMS) else "session"


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is slow though nobody marked it."""
    if item.nodeid.startswith(SLOW_FOLDERS) or getattr(item, "originalname", "") in SLOW_PROMISES:
        return True
    values = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    return any(isinstance(value, str) and value in RARELY for value in values)
