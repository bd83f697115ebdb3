"""Every option of releases 1.1.1 and 1.2.0 that concerns writes, table services or reads: `option_keys.txt`.

A line has the key, its default (empty for none), its older names, and the class of Hudi's that declares it. Made by
asking the config classes of hudi-spark3.5-bundle_2.12 (Java reflection) for their `ConfigProperty` fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HudiOption:
    """One option of Hudi's. `group` is the class that declares it."""

    key: str
    default: str
    older: tuple[str, ...]
    group: str


def hudi_options() -> list[HudiOption]:
    """All of them, by key."""
    lines = (Path(__file__).parent / "option_keys.txt").read_text(encoding="utf-8").splitlines()
    parts = (line.split("\t") for line in lines)
    return [HudiOption(key, default, tuple(filter(None, old.split(","))), group) for key, default, old, group in parts]
