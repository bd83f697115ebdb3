"""Fuzzes one target in a process of its own: `python -m tests.fuzz.child TARGET SECONDS FOLDER SEED`.

An input is a fault when it ends in an exception that is not lakebed's, takes more time or memory than `bounds.py` says,
or kills the process. A fault of each kind (where it was raised) is kept once, as a file in FOLDER/faults; what it was
goes to FOLDER/report.json when the processor time is used up. Deaths are left to the parent.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import sys
import time
import traceback
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["lakebed"], enable_loader_override=False):
    from lakebed.errors import LakebedError
    from tests.fuzz.bounds import bound_of
    from tests.fuzz.targets import TARGETS

MOST_BYTES = 1 << 16
_HANG_SECONDS = 60
_MOST_MEBIBYTES = 4096


class Run:
    """The state of one run: what was tried, and the faults."""

    def __init__(self, name: str, seconds: float, folder: Path) -> None:
        self.target, self.bound = TARGETS[name], bound_of(name)
        self.seconds, self.folder = seconds, folder
        self.count = self.accepted = 0
        self.faults: dict[str, dict[str, Any]] = {}
        (folder / "faults").mkdir(parents=True, exist_ok=True)
        self.start = time.process_time()

    def one(self, data: bytes) -> None:
        """Decode one input, and look at how that ends."""
        self.count += 1
        before, peak = time.process_time(), _peak()
        try:
            self.target.decode(data)
            self.accepted += 1
        except LakebedError:
            pass
        except Exception as error:
            self.fault(_place(error), f"{type(error).__name__}: {str(error)[:300]}", data)
        except BaseException as error:  # a panic of a library in Rust
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self.fault(_place(error), f"{type(error).__name__}: {str(error)[:300]}", data)
        took, grown = time.process_time() - before, _peak() - peak
        if took > self.bound.seconds:
            self.fault("slow", f"{took:.1f} s for {len(data)} bytes", data)
        if grown > self.bound.memory(len(data)) and (grown := self._grown_again(data)) > self.bound.memory(len(data)):
            self.fault(f"memory-{grown.bit_length()}", f"{grown >> 20} MiB more for {len(data)} bytes", data)
        if self.count % 64 == 0 and time.process_time() - self.start > self.seconds:
            self.report()
            os._exit(0)

    def _grown_again(self, data: bytes) -> int:
        """How many bytes more the process takes for an input that it has decoded before: the threads and caches of a
        library that the first input of its kind started are not counted. Where the system cannot tell: very many."""
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before = _peak()
            with suppress(BaseException):
                self.target.decode(data)
            return _peak() - before
        except OSError:
            return 1 << 60

    def fault(self, place: str, what: str, data: bytes) -> None:
        """Keep the first and the shortest input of a kind of fault."""
        known = self.faults.get(place)
        if known is None or len(data) < known["bytes"]:
            name = hashlib.sha256(place.encode()).hexdigest()[:12]
            (self.folder / "faults" / name).write_bytes(data)
            self.faults[place] = {"what": what, "bytes": len(data), "file": name}
            if known is None:
                print(f"{self.target.name}: {what} at {place} ({name})", flush=True)
                self.report()

    def report(self) -> None:
        """Write what was tried and found."""
        done = {
            "target": self.target.name,
            "seconds": round(time.process_time() - self.start, 1),
            "runs": self.count,
            "accepted": self.accepted,
            "faults": self.faults,
        }
        (self.folder / "report.json").write_text(json.dumps(done, indent=1))


def _peak() -> int:
    """The most bytes of memory that the process had, since it began or since its peak began anew."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _place(error: BaseException) -> str:
    """Where an exception was raised, by the last two frames of lakebed or of the target."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "lakebed" in f.filename or "fuzz" in f.filename]
    return type(error).__name__ + " " + " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[-1:-3:-1])


def main() -> None:
    """Fuzz until the processor time is used up."""
    name, seconds, folder, seed = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    warnings.simplefilter("ignore")
    run = Run(name, seconds, folder)
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for data in run.target.seeds():
        with suppress(LakebedError):  # what is imported and cached once is not the input's doing
            run.target.decode(data)
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        chance = random.Random(seed)
        if chance.random() < 0.15:
            return atheris.Mutate(data, most)  # type: ignore[no-any-return]
        return run.target.mutate(data, chance)[:most]

    arguments = [
        sys.argv[0],
        str(corpus),
        f"-seed={seed}",
        f"-max_len={MOST_BYTES}",
        f"-timeout={_HANG_SECONDS}",
        "-verbosity=0",
        f"-rss_limit_mb={_MOST_MEBIBYTES}",
        f"-artifact_prefix={folder}/",
        "-detect_leaks=0",
        "-close_fd_mask=0",
    ]
    atheris.Setup(arguments, run.one, custom_mutator=mutate)
    run.start = time.process_time()
    atheris.Fuzz()


main()
