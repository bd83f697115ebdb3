"""One Paimon table's life with several engines: random steps, each by a random engine, and a model of the rows.

python -m tests.interop.paimon_life SEED-SEED,SEED [--steps 14] [--folder FOLDER] [--wish FIELD=VALUE ...]

It needs the variables that `./run interop` sets.
"""

from __future__ import annotations

import copy
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lakebed
from tests.interop.conftest import PaimonJvm, Pypaimon, paimon_jvm_peer, pypaimon_peer
from tests.interop.lives import arguments, seeds
from tests.interop.paimon_actors import Jvm, Lakebed, Python
from tests.interop.paimon_deaths import Deaths
from tests.interop.paimon_shape import Shape
from tests.interop.paimon_state import Column, State


class Life(Deaths):
    """A table, the engines, and the rows that must be in it. A branch of a table has a life of its own."""

    def __init__(
        self, shape: Shape, path: Path, seed: int, jvm: PaimonJvm, pypaimon: Pypaimon, log: Any = None
    ) -> None:
        self.shape, self.path, self.log = shape, path, log
        self.chance = random.Random(seed)
        lakebed.create(path, "paimon", shape.schema, shape.keys, ["part"], shape.options)
        self.lakebed, self.jvm = Lakebed(shape, path), Jvm(shape, path, jvm)
        self.python = Python(shape, path, pypaimon)
        columns = tuple(Column(field.name, field.name, field.type, field.nullable) for field in shape.schema)
        self.state = State({}, {}, columns)
        self.refused = Counter()
        self.states, self.tags, self.tagged = {}, {}, {}
        self.told, self.heard, self.told_at = {}, {}, {}
        self.number = self.fresh = 0
        self.compacted = self.unheard = self.rescaled = False
        self.who, self.branch = "", "main"

    def live(self, steps: int) -> None:
        """So many steps, and a look by every engine after each of them."""
        for _ in range(steps):
            choices: list[tuple[float, Callable[[], None]]] = [
                (4, self._upsert), (2, self._insert), (2, self._delete), (1, self._overwrite), (2, self._compact),
                (0.7, self._expire), (0.7, self._tag), (0.4, self._untag), (0.6, self._rollback), (1.5, self._alter),
                (1, self._die), (0.5, self._rescale), (0.4, self._sweep), (0.5, self._fork),
            ]  # fmt: skip
            if self.branch != "main":
                choices = choices[:-3]
            weights, steps_ = zip(*choices if self.number else [(1, self._insert)], strict=True)
            self.step(self.chance.choices(steps_, weights)[0])

    def play(self, script: str) -> None:
        """The steps that a script names, each by the engine named before it: `lakebed insert, jvm compact`. What that
        engine cannot do, another does."""
        for line in script.split(","):
            self.who, name = line.split()
            self.step(getattr(self, f"_{name}"))

    def _fork(self) -> None:
        """A branch that goes another way. The main branch is put where it is then, or it goes."""
        name, tag, number = f"b{self.number}", f"f{self.number}", max(self.states)
        self.by(f"tag {number}", lambda actor: actor.tag(tag, number))
        self.tags[tag], self.tagged[tag] = self.states[number], number
        self.by(f"branch {name}", lambda actor: actor.branch(name, tag))
        branch = self._on(name, number)
        branch.check()
        branch.live(self.chance.randrange(1, 4))
        self.number, self.fresh = branch.number, branch.fresh
        self._upsert()
        self.check()
        branch.check()
        if self.chance.random() < 0.4:
            self.by(f"unbranch {name}", lambda actor: actor.unbranch(name))
            return
        self.by(f"forward {name}", lambda actor: actor.fast_forward(name))
        # Release 1.3.1 takes over the branch's hint too, and then knows none of the table's older snapshots.
        (self.path / "snapshot" / "EARLIEST").unlink(missing_ok=True)
        self.states = {one: state for one, state in self.states.items() if one < number} | branch.states
        self.told_at = {one: told for one, told in self.told_at.items() if one < number} | branch.told_at
        self.tagged = {name: one for name, one in self.tagged.items() if one < number} | branch.tagged
        self.tags = {name: (self.tags | branch.tags)[name] for name in self.tagged}
        self.state, self.told = branch.state, branch.told
        self.by(f"unbranch {name}", lambda actor: actor.unbranch(name))
        self.deaf()

    def _on(self, name: str, number: int) -> Life:
        """The life of a branch of a snapshot. No stream of it is followed."""
        found = copy.copy(self)
        found.branch, found.unheard, found.state = name, True, self.states[number]
        found.lakebed, found.jvm = self.lakebed.on_branch(name), self.jvm.on_branch(name)
        found.python = self.python.nowhere()
        found.states, found.told_at = {number: self.states[number]}, {number: self.told_at[number]}
        found.tags, found.tagged = {}, {}
        return found


@contextmanager
def engines(folder: Path) -> Iterator[tuple[PaimonJvm, Pypaimon]]:
    """A process of each outside engine."""
    places = [folder / name for name in ("jvm", "pypaimon")]
    for place in places:
        place.mkdir(parents=True)
    jvm, python = paimon_jvm_peer(places[0]), pypaimon_peer(places[1])
    try:
        yield PaimonJvm(jvm, places[0]), Pypaimon(python, places[1])
    finally:
        jvm.close()
        python.close()


def main() -> None:
    """Lives by seed."""
    given = arguments(__doc__, 14)
    wanted = {
        name: {"True": True, "False": False}.get(value, value) for name, value in (w.split("=") for w in given.wish)
    }
    failed, refused = [], Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        with engines(folder / "engines") as (jvm, pypaimon):
            for seed in seeds(given.seeds):
                shape = Shape.drawn(random.Random(seed), wanted)
                began = time.monotonic()
                print(f"== {seed} {shape}", flush=True)
                life = Life(
                    shape, folder / "db.db" / f"life{seed}", seed, jvm, pypaimon, None if given.quiet else sys.stdout
                )
                try:
                    life.play(given.play) if given.play else life.live(given.steps)
                except Exception as error:
                    failed.append(seed)
                    print(f"-- {seed} failed: " + "".join(traceback.format_exception(error)[-5:]), flush=True)
                refused += life.refused
                print(f"   {time.monotonic() - began:.1f} s", flush=True)
    for what, count in refused.most_common():
        print(f"refused {count} x {what[:220]}")
    print(f"failed: {failed}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
