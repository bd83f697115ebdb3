"""kill -9 inside a put on the local disk: nothing foreign lies where engines look."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakebed.kernel.files import PutOutcome, open_store
from lakebed.kernel.files.unpublished import STAGING

MOMENTS = ("half", "before", "after")
VERBS = ("put_if_absent", "write")
HINTS = ("hint", "no hint")

KILLED = """
import os, signal, sys
from lakebed.kernel.files.local import LocalStore

def kill(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def put(root, moment, verb):
    link, replace = os.link, os.replace
    if moment == "half":
        os.fsync = kill  # the bytes are on their way into the staged file
    elif moment == "before":
        os.link = os.replace = kill
    else:
        os.link = lambda *names, **how: (link(*names, **how), kill())
        os.replace = lambda *names, **how: (replace(*names, **how), kill())
    store = LocalStore(root)
    if verb == "write":
        store.write("snapshot/LATEST", b"2")
    else:
        store.put_if_absent("snapshot/snapshot-2", b"x" * 100_000)

for root in sys.argv[1:]:  # each in a process of its own
    child = os.fork()
    if child == 0:
        put(root, *os.path.basename(root).split(",")[:2])
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables, in each of which a process was killed in the middle of a put."""
    folder = tmp_path_factory.mktemp("killed")
    for case in itertools.product(MOMENTS, VERBS, HINTS):
        store = open_store(folder / ",".join(case))
        store.write("snapshot/snapshot-1", b"one")
        store.write("schema/schema-0", b"{}")
        if case[-1] == "hint":
            store.write("snapshot/LATEST", b"1")
    roots = sorted(map(str, folder.iterdir()))
    run = subprocess.run([sys.executable, "-c", KILLED, *roots], capture_output=True, text=True, timeout=240)
    assert run.stdout.split() == [str(-signal.SIGKILL)] * len(roots), run.stderr
    return folder


@pytest.mark.parametrize("hint", HINTS)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_put_leaves_the_old_or_the_new(tables: Path, moment: str, verb: str, hint: str) -> None:
    root = tables / f"{moment},{verb},{hint}"
    before = {"snapshot-1", "LATEST"} if hint == "hint" else {"snapshot-1"}
    new = "snapshot-2" if verb == "put_if_absent" else "LATEST"
    found = set(os.listdir(root / "snapshot"))
    assert found == (before | {new} if moment == "after" else before)
    assert set(os.listdir(root)) == {"snapshot", "schema", STAGING}

    reopened = open_store(root)
    assert {info.name for info in reopened.list("snapshot").files} == found
    assert reopened.list().folders == ("schema", "snapshot")
    assert {info.path for info in reopened.walk()} == {f"snapshot/{name}" for name in found} | {"schema/schema-0"}
    if "LATEST" in found:
        assert reopened.read("snapshot/LATEST") == (b"2" if moment == "after" and verb == "write" else b"1")
    if new == "snapshot-2" and moment == "after":
        assert reopened.read("snapshot/snapshot-2") == b"x" * 100_000
    else:
        assert reopened.put_if_absent("snapshot/snapshot-2", b"again") is PutOutcome.CREATED

    for stray in (root / STAGING).glob("*"):
        os.utime(stray, (0, time.time() - 7200))
    open_store(root).write("schema/schema-0", b"{}")
    assert set(os.listdir(root)) == {"snapshot", "schema"}, "a later put sweeps what the killed one left"
