"""Writes docs/paimon-migration.md: every table option of Paimon's newest release, and what becomes of it in lakebed.

python -m tests.conformance.paimon_migration            writes it
python -m tests.conformance.paimon_migration --check    fails when the page does not say what holds
"""

import sys
from pathlib import Path

from lakebed.formats.paimon.options import SERVED
from lakebed.formats.paimon.unserved import OF_COLUMNS, UNSERVED, Use
from tests.conformance.pages import written_or_checked

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "paimon-migration.md"
_SPOKEN = {Use.READ: "reads", Use.WRITE: "writes", Use.UPKEEP: "upkeep"}
LINES = ROOT / "tests" / "unit" / "paimon" / "paimon_options.txt"
BEGIN = """\
# From Paimon's engines to lakebed, option by option

A Paimon table keeps its options in its schema, and lakebed reads and writes the table by them. This page lists every
table option of Paimon 2.0 and of earlier releases. [paimon-sink.md](paimon-sink.md),
[paimon-read.md](paimon-read.md) and [paimon-services.md](paimon-services.md) say what the served ones do.

- **Served** options have Paimon's meaning and default, unless the description says otherwise.
- **Refused** ones ask for something that lakebed does not do. An empty value and the harmless ones are accepted;
  anything else is an UnsupportedError before a row is read or written, or a file removed, whether you give the option
  or the table has it. *Writes* include compactions; *upkeep* is expiry, the removal of orphan files, and rollback.
- Those **without effect** are kept for Paimon's engines. None of them changes which rows are read or written. A log
  line names those that you give, once.

Of the families `fields.*`, `file-index.*`, `parquet.*`, `orc.*` and `avro.*` every key is accepted, except three of
`fields.*` that are listed below, and those that encrypt files: `parquet.crypto.*`, `parquet.encryption.*`,
`orc.encrypt*`, `orc.mask*` and `orc.key.provider*` are refused.
"""


def main(arguments: list[str]) -> int:
    """0 when the page holds, or now holds, what is so."""
    return written_or_checked(PAGE, rendered(), arguments)


def rendered() -> str:
    """The page."""
    lines = (line.split() for line in LINES.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    keys: dict[str, list[str]] = {"served": [], "refused": [], "tuning": []}
    for key, group in lines:
        keys[group].append(key)
    served = [f"| `{key}` | {_told(_served(key))} |\n" for key in keys["served"]]
    refused = [_refused(key) for key in keys["refused"]]
    refused += [_row(f"fields.NAME.{key}", *said, "reads and writes") for key, said in OF_COLUMNS.items()]
    without = ",\n".join(f"`{key}`" for key in keys["tuning"])
    return (
        f"{BEGIN}\n## Served\n\n| option | what it does |\n|---|---|\n{''.join(served)}"
        f"\n## Refused\n\n| option | it asks for | accepted values | by |\n|---|---|---|---|\n{''.join(refused)}"
        f"\n## Without effect\n\n{without}.\n"
    )


def _served(key: str) -> str:
    option = next(option for option in SERVED if key in (option.key, *option.aliases))
    return option.doc if key == option.key else f"An older name of `{option.key}`."


def _refused(key: str) -> str:
    option = next(option for option in UNSERVED if key in (option.key, *option.aliases))
    return _row(key, option.what, option.harmless, _listed([_SPOKEN[use] for use in option.uses]))


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _row(key: str, what: str, harmless: tuple[str, ...], uses: str) -> str:
    accepted = ", ".join(f"`{value}`" for value in harmless if value)
    return f"| `{key}` | {_told(what)} | {accepted} | {uses} |\n"


def _told(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
