"""Runs the whole matrix, or that of some tables: `python -m tests.confinement [BEGINNING OF A TABLE'S NAME]`."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.confinement import matrix, tables, verbs


def main() -> int:
    """Print what is wrong, and how many cells there were. 1 when anything is wrong."""
    beginning, step = sys.argv[1] if len(sys.argv) > 1 else "", int(sys.argv[2]) if len(sys.argv) > 2 else 1
    count = faults = 0
    for number, table in enumerate(tables.MADE):
        if not table.startswith(beginning):
            continue
        start = time.process_time()
        with tempfile.TemporaryDirectory(prefix="lakebed-confined-") as folder:
            ground = matrix.Ground(Path(folder), table)
            silent = []
            for at, field in enumerate(matrix.fields(ground.content, table)):
                ends = set()
                for template in [*matrix.LOCAL.values()][(number + at) % step :: step]:
                    endings, wrong = matrix.run(ground, field, template, verbs.CHANGES[ground.form])
                    count += len(endings)
                    ends |= {name for name, ended in endings.items() if ended}
                    faults += len(wrong)
                    for line in wrong:
                        print(line[:400], flush=True)
                if not ends:
                    silent.append(str(field).partition(": ")[2])
            ground.close()
        print(
            f"{table}: {count} cells so far, {time.process_time() - start:.0f} s; never refused: {silent}", flush=True
        )
    print(f"{count} cells, {faults} faults")
    return 1 if faults else 0


sys.exit(main())
