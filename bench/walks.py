"""How far one needs to walk through the code to follow a piece of data: for each walk that docs/architecture.md tells,
the modules of lakebed that run, and the moves between them.

    ./run bench walks [--source FOLDER]

A move is a call of a function of one module by a function of another, or the return to it; calls inside a module and
of other libraries do not count. The figures are counts, the same on every machine: they go to bench/results/walks.json.
`--source` measures the sources of another checkout.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "walks.json"


class Walk:
    """Counts the modules that run inside the block, and the moves between them, over all threads."""

    def __init__(self, package: Path) -> None:
        self._package = f"{package}/"
        self.modules: set[str] = set()
        self.moves = 0

    def __enter__(self) -> Walk:
        threading.setprofile(self._hook())
        sys.setprofile(self._hook())
        return self

    def __exit__(self, *exception: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _hook(self) -> Callable[[FrameType, str, Any], None]:
        here = threading.local()

        def seen(frame: FrameType, event: str, argument: Any) -> None:
            if event not in ("call", "return"):
                return
            into: FrameType | None = frame if event == "call" else frame.f_back
            file = into.f_code.co_filename if into is not None else ""
            if not file.startswith(self._package) or file.endswith("__init__.py"):
                return
            self.modules.add(file)
            if getattr(here, "file", file) != file:
                self.moves += 1
            here.file = file

        return seen


def walks(folder: Path) -> dict[str, dict[str, int]]:
    """The figures of each walk, on tables that are made in `folder`; the code is warm when it is measured."""
    import pyarrow as pa

    import lakebed
    from lakebed import LocalEngine
    from tests.golden import unpack

    package = Path(lakebed.__file__).parent
    one = LocalEngine(threads=1)
    found: dict[str, dict[str, int]] = {}

    def measured(name: str, prepare: Callable[[int], Any], run: Callable[[Any], Any]) -> None:
        run(prepare(0))
        ready = prepare(1)
        with Walk(package) as walk:
            run(ready)
        found[name] = {"modules": len(walk.modules), "moves": walk.moves}

    orders = ROOT / "examples" / "orders_hudi"
    columns = ["dt", "order_id", "amount"]
    schema = pa.schema([lakebed.open(orders).schema.field(name) for name in columns])

    def sink(number: int) -> Any:
        return lakebed.create(folder / f"paimon{number}", "paimon", schema, ["dt", "order_id"], ["dt"], {"bucket": "1"})

    def log_rows_to_files(sink: Any) -> None:
        sink.write(lakebed.open(orders).read(columns=columns, where="dt = '2026-03-02'"))

    def many_files(name: str) -> Any:
        table = lakebed.create(folder / name, "iceberg", pa.schema([("id", pa.int64())]))
        for start in range(6):
            table.write(pa.table({"id": range(start * 10, start * 10 + 10)}))
        return lakebed.open(table.location)

    def long_timeline(number: int) -> Any:
        return lakebed.open(shutil.copytree(unpack("hudi", "archived_v8"), folder / f"hudi{number}"))

    options = {
        "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "lakebed.archive.lock": "none",
        "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
    }  # fmt: skip
    measured("a Hudi log row into a Paimon file", sink, log_rows_to_files)
    measured(
        "an Iceberg rewrite", lambda number: many_files(f"rewritten{number}"), lambda table: table.rewrite(engine=one)
    )
    measured("an archive run", long_timeline, lambda table: table.archive(options=options))
    measured(
        "an Iceberg append",
        lambda number: many_files(f"appended{number}"),
        lambda table: table.write(pa.table({"id": [1]})),
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--source", type=Path, default=ROOT, help="the checkout whose sources are measured")
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inner:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(walks(Path(folder))))
        return
    command = [sys.executable, "-m", "bench.walks", "--inner"]
    environment = {"PYTHONPATH": f"{given.source.resolve()}/src", "PATH": "/usr/bin:/bin"}
    text = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    figures = json.loads(text.splitlines()[-1])
    for name, counts in figures.items():
        print(f"{name}: {counts['modules']} modules, {counts['moves']} moves")
    if given.source == ROOT:
        RESULTS.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
