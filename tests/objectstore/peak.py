"""Reads a table in a process of its own, and prints how much its peak grew over that of reading a small one.

python -m tests.objectstore.peak '{"location": ..., "options": ..., "small": ...}'
"""

import json
import sys

import lakebed


def peak() -> int:
    """The largest resident size of this process so far, in bytes."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def read(location: str, options: dict[str, str]) -> int:
    """Read batch by batch, as somebody who keeps none. Returns the number of rows."""
    return sum(batch.num_rows for batch in lakebed.open(location, options).read())


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    read(given["small"], given["options"])
    before = peak()
    rows = read(given["location"], given["options"])
    print(json.dumps({"rows": rows, "grew": peak() - before}))
