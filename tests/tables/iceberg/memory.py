"""One rewrite of a table in a process of its own: prints what memory it had before and its peak, in MiB.

    python -m tests.tables.iceberg.memory TABLE THREADS OPTIONS_AS_JSON

Sorts may hold 16 MiB a task, and every large group is sorted by all tasks together.
"""

import gc
import json
import sys
from pathlib import Path

import lakebed
from lakebed.formats.iceberg.rewrite import groups, task
from lakebed.kernel.engine import LocalEngine


def peak() -> int:
    """The greatest resident size; unlike that of getrusage it leaves out what the parent was before."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    known = task.TaskRunner.__init__.__defaults__ or ()
    task.TaskRunner.__init__.__defaults__ = tuple(16 << 20 if one == task.MEMORY else one for one in known)
    groups.LEAST_BYTES = 1
    table = lakebed.open(sys.argv[1])
    table.rewrite(dry_run=True)  # imports and caches are no part of it
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the greatest size so far becomes the present one
    before = peak()
    done = table.rewrite(engine=LocalEngine(int(sys.argv[2])), options=json.loads(sys.argv[3]))
    print(json.dumps({"before": before, "peak": peak(), "groups": done.groups}))
