"""The one table of what is fuzzed. A codec of the command line is the beginning of a target's name."""

from __future__ import annotations

from tests.fuzz import hudi, iceberg, kernel, paimon
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target for part in (hudi, paimon, iceberg, kernel) for target in part.TARGETS
}


def chosen(codec: str) -> list[Target]:
    """The targets of a codec: those whose name is `codec` or begins with it. KeyError where there are none."""
    found = [target for name, target in TARGETS.items() if not codec or name == codec or name.startswith(f"{codec}-")]
    if not found:
        raise KeyError(codec)
    return found
