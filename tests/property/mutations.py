"""Damages files of whole tables and runs every verb that reads over them: rows or an error by name, in bounded time.

`python -m tests.property.mutations --seconds 300 --seed 7` looks for longer than the test does, and prints each fault
with the seed of its trial.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.errors import LakebedError
from tests.golden import unpack

SECONDS_A_TRIAL = 20
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("d", pa.decimal128(9, 2))])
_GOLDEN = {
    "hudi": ("mor_v6", "mor_v8", "cow_v9", "archived_v6", "archived_v9"),
    "paimon": ("pk_dv", "types_orc", "types_avro"),
    "iceberg": ("hadoop_v2",),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """An exception that is no LakebedError, or a trial that took too long."""

    table: str
    file: str
    seed: int
    verb: str
    error: str
    place: str


def _rows(start: int) -> pa.Table:
    ids = range(start, start + 200)
    return pa.table({"id": ids, "v": [f"v{n}" for n in ids], "d": [None] * 200}, schema=SCHEMA)


def _made(folder: Path) -> Iterator[tuple[str, Path]]:
    for kind in ("avro", "orc", "parquet"):
        options = {"write.format.default": kind, "write.delete.mode": "merge-on-read", "format-version": "2"}
        table = lakebed.create(folder / f"iceberg_{kind}", "iceberg", SCHEMA, options=options)
        table.write(_rows(0))
        table.write(_rows(100).slice(0, 50), mode="upsert", options={"upsert.keys": "id"})
        yield f"iceberg {kind}", folder / f"iceberg_{kind}"
        where = folder / "db.db" / f"paimon_{kind}"
        paimon = lakebed.create(where, "paimon", SCHEMA, ["id"], options={"bucket": "1", "file.format": kind})
        paimon.write(_rows(0))
        paimon.write(_rows(100))
        yield f"paimon {kind}", where
    vectors = lakebed.create(folder / "iceberg_3", "iceberg", SCHEMA, options={"format-version": "3"})
    vectors.write(_rows(0))
    vectors.write(_rows(100), mode="upsert", options={"upsert.keys": "id"})
    yield "iceberg vectors", folder / "iceberg_3"


def tables(folder: Path) -> dict[str, Path]:
    """Tables of every format by name, made in a folder."""
    found = dict(_made(folder))
    for format, names in _GOLDEN.items():
        for name in names:
            found[f"{format} {name}"] = Path(unpack(format, name, into=folder / format / name))
    return found


VERBS: dict[str, Callable[[lakebed.Table], object]] = {
    "read": lambda table: table.read().read_all(),
    "changes": lambda table: table.changes().read_all(),
    "history": lambda table: table.history(archived=table.format == "hudi"),
    "inspect": lambda table: table.inspect(),
    "expire": lambda table: table.expire(dry_run=True),
    "rewrite": lambda table: table.rewrite(dry_run=True),
}


def _bytes_changed(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    match chance.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + bytes(min(8, len(data) - at)) + data[at + 8 :]
        case 2:
            return data[:at] + chance.randbytes(4) + data[at + 4 :]
        case 3:
            return data[:at] + chance.randbytes(3) + data[at:]
        case _:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


_ODD: tuple[Any, ...] = (None, -1, 2**70, "", "x", [], {}, [[]], True, 1.5, "\ud800", -(2**40))


def _json_changed(value: Any, chance: random.Random) -> Any:
    """A document with one value, somewhere inside, gone or of another type."""
    if isinstance(value, (dict, list)) and value and chance.random() < 0.85:
        places = [*value] if isinstance(value, dict) else range(len(value))
        place = chance.choice(places)
        made = dict(value) if isinstance(value, dict) else list(value)
        if chance.random() < 0.15:
            del made[place]
        else:
            made[place] = _json_changed(value[place], chance)
        return made
    return chance.choice(_ODD)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some damage."""
    if data[:1] in b"{[" and chance.random() < 0.7:
        try:
            return json.dumps(_json_changed(json.loads(data), chance)).encode()
        except ValueError:
            pass
    for _ in range(chance.choice((1, 1, 1, 3))):
        data = _bytes_changed(data, chance) if data else b"x"
    return data


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS_A_TRIAL} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS_A_TRIAL)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def trials(places: dict[str, Path], seed: int, count: int | None = None, seconds: float = 1e9) -> Iterator[Fault]:
    """Damages one file after the other, each in its own way, and gives what went wrong."""
    files = {name: sorted(p for p in root.rglob("*") if p.is_file()) for name, root in places.items()}
    end = time.monotonic() + seconds
    done = 0
    while (count is None or done < count) and time.monotonic() < end:
        done += 1
        chance = random.Random(seed + done)
        name = chance.choice([*places])
        path = chance.choice(files[name])
        whole = path.read_bytes()
        path.unlink()  # readers may have it mapped
        path.write_bytes(mutated(whole, chance))
        try:
            for verb in ("read", chance.choice([*VERBS])):
                fault = _tried(name, places[name], path, seed + done, verb)
                if fault is not None:
                    yield fault
                    break
        finally:
            path.unlink()
            path.write_bytes(whole)


def _tried(name: str, root: Path, path: Path, seed: int, verb: str) -> Fault | None:
    try:
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            VERBS[verb](lakebed.open(root))
    except LakebedError:
        return None
    except Exception as error:
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "lakebed" in frame.filename]
        place = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in ours[-1:-4:-1])
        text = f"{type(error).__name__}: {str(error)[:120]}"
        return Fault(name, str(path.relative_to(root)), seed, verb, text, place)
    return None


def main() -> None:
    """Looks for as long as it is asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for fault in trials(tables(Path(folder)), given.seed, seconds=given.seconds):
            seen[fault.place] += 1
            if seen[fault.place] == 1:
                print(fault, flush=True)
    print(f"{sum(seen.values())} faults at {len(seen)} places")


if __name__ == "__main__":
    main()
