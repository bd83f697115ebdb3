"""What the lives of tables have in common, in which engines take turns: who does a step, and the seeds of a run."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from lakebed.errors import UnsupportedError


def done_by(
    actors: Iterable[Any], first: str, chance: Random, what: str, do: Callable[[Any], None], number: int,
    refused: Counter[str], note: Callable[[str], None],
) -> str:  # fmt: skip
    """The name of the engine that did step `number`: the one that is named `first`, or by chance another that can;
    empty where none can. `refused` counts who could not."""
    shuffled = list(actors)
    chance.shuffle(shuffled)
    shuffled.sort(key=lambda actor: str(actor.name) != first)
    for actor in shuffled:
        began = time.monotonic()
        try:
            do(actor)
        except UnsupportedError as error:
            refused[f"{actor.name} {what.split()[0]}: {error}"] += 1
            continue
        except Exception as error:
            error.add_note(f"step {number}: {actor.name} {what}")
            raise
        note(f"{number} {actor.name} {what} {time.monotonic() - began:.1f}s")
        return str(actor.name)
    return ""


def arguments(description: str | None, steps: int) -> argparse.Namespace:
    """The arguments of a run of lives by seed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--play", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--wish", nargs="*", default=[])
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def seeds(text: str) -> Iterator[int]:
    """The seeds of a text such as `3,7-9`."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
