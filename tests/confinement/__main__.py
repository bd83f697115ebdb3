"""Runs the whole matrix, or that of some tables: `python -m tests.confinement [--bucket] [TABLE] [STEP]`.

TABLE is the beginning of a name. With `--bucket` the tables are on a server, else on a disk. Each field meets every
text, or each STEPth one.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.confinement import matrix, tables, verbs
from tests.confinement.remote import RemoteGround
from tests.objectstore.server import StoreServer


def main(bucket: bool, beginning: str = "", step: str = "1") -> int:
    """Print what is wrong, and how many cells there were. 1 when anything is wrong."""
    count = faults = 0
    texts = [*(matrix.REMOTE if bucket else matrix.LOCAL).values()]
    for number, table in enumerate(tables.MADE):
        if not table.startswith(beginning):
            continue
        start = time.process_time()
        with _ground(table, bucket) as ground:
            silent = []
            for at, field in enumerate(matrix.fields(ground.content, table)):
                ends = set()
                for template in texts[(number + at) % int(step) :: int(step)]:
                    endings, wrong = matrix.run(ground, field, template, verbs.CHANGES[ground.form])
                    count += len(endings)
                    ends |= {name for name, ended in endings.items() if ended}
                    faults += len(wrong)
                    for line in wrong:
                        print(line[:400], flush=True)
                if not ends:
                    silent.append(str(field).partition(": ")[2])
        print(
            f"{table}: {count} cells so far, {time.process_time() - start:.0f} s; never refused: {silent}", flush=True
        )
    print(f"{count} cells, {faults} faults")
    return 1 if faults else 0


@contextmanager
def _ground(table: str, bucket: bool) -> Iterator[Any]:
    """The ground of a table, on a server of its own or in a folder."""
    if bucket:
        server = StoreServer()
        try:
            yield RemoteGround(server, table)
        finally:
            server.stop()
        return
    with tempfile.TemporaryDirectory(prefix="lakebed-confined-") as folder:
        ground = matrix.Ground(Path(folder), table)
        yield ground
        ground.close()


sys.exit(main("--bucket" in sys.argv, *(word for word in sys.argv[1:] if word != "--bucket")))
