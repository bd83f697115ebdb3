"""Writes docs/hudi-migration.md: every option of Hudi's newest release, and what becomes of it in lakebed.

python -m tests.conformance.hudi_migration            writes it
python -m tests.conformance.hudi_migration --check    fails when the page claims what is not so
"""

import sys
from pathlib import Path

from lakebed.formats.hudi.options import SPARK
from lakebed.formats.hudi.unserved import UNSERVED, UNSERVED_READS
from lakebed.formats.hudi.upkeep import UPKEEP
from lakebed.formats.hudi.write.settings import LEFT_OUT, WRITE
from lakebed.kernel.options import Option, OptionSet
from tests.tables.hudi.option_keys import HudiOption, hudi_options

PAGE = Path(__file__).parents[2] / "docs" / "hudi-migration.md"
SETS = (UPKEEP, WRITE, SPARK)
BEGIN = """\
# From Hudi's bundle to lakebed, option by option

You have a job that writes with `df.write.format("hudi").options(...)`. Leave out the jar, install lakebed, and
call `lakebed.spark.register(spark)`: the job runs with the options that it has. This page lists every option of
releases 1.1 and 1.2, by the class of Hudi's that declares it. [hudi-write.md](hudi-write.md),
[hudi-services.md](hudi-services.md) and [hudi-read.md](hudi-read.md) say what the served ones do.

- **Served** options have a description. The default is Hudi's; where lakebed's differs, the description says so.
- **Refused** ones ask for something that lakebed does not do. Their defaults, empty and `false` are accepted;
  anything else is an error before anything is written.
- Those **without effect** change no rows: they tune Hudi's own engine, its metrics or its SQL. A log line names those
  that you give, once.

What no option says: the sync to a catalog is a job of your own, and mode overwrite replaces the rows in one
commit and keeps the table's history.
"""


def main(arguments: list[str]) -> int:
    """0 when the page holds, or now holds, what is so."""
    if "--check" in arguments:
        wrong = complaints(PAGE.read_text(encoding="utf-8"))
        for line in wrong:
            print(f"hudi_migration: {line}; write the page anew", file=sys.stderr)
        return int(bool(wrong))
    PAGE.write_text(rendered(), encoding="utf-8")
    return 0


def rendered() -> str:
    """The page."""
    groups: dict[str, list[HudiOption]] = {}
    for option in hudi_options():
        groups.setdefault(option.group, []).append(option)
    return BEGIN + "".join(_group(name, groups[name]) for name in sorted(groups))


def _group(name: str, options: list[HudiOption]) -> str:
    rows = [
        f"| `{option.key}` | {_default(option)} | {told} |" for option in options if (told := what_becomes(option.key))
    ]
    nothing = [f"`{option.key}`" for option in options if not what_becomes(option.key)]
    table = "\n| option | default | here |\n|---|---|---|\n" + "\n".join(rows) + "\n" if rows else ""
    without = "\nWithout effect: " + ",\n".join(nothing) + ".\n" if nothing else ""
    return f"\n## {name}\n{table}{without}"


def _default(option: HudiOption) -> str:
    text = option.default.strip().replace("|", "\\|")
    return f"`{text.rpartition('.')[2] if text.startswith('org.apache.hudi.') else text}`" if text else ""


def what_becomes(key: str) -> str:
    """The description of a served option, what a refused one asks for, or "" for one without effect."""
    refused = UNSERVED.get(key.lower()) if LEFT_OUT.knows(key) else None
    refused = refused or UNSERVED_READS.get(key.lower())
    if refused is not None:
        return f"refused: {refused.what}. {refused.instead}".replace("|", "\\|")
    declared = next((found for options in SETS if (found := _declared(options, key)) is not None), None)
    if declared is None or declared.idle or declared.doc.startswith("Accepted without effect"):
        return ""
    return declared.doc.replace("|", "\\|")


def _declared(options: OptionSet, key: str) -> Option[object] | None:
    named = [o for o in options.options if key.lower() in (o.key.lower(), *(alias.lower() for alias in o.aliases))]
    return named[-1] if named else None


def complaints(page: str) -> list[str]:
    """What a page says that is not so: an option that it lacks, or calls served and is not."""
    wrong = []
    lines = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    for option in hudi_options():
        if f"`{option.key}`" not in page:
            wrong.append(f"{option.key} is missing")
        line = lines.get(option.key, "")
        told = what_becomes(option.key)
        if line and "| refused: " not in line and (not told or told.startswith("refused: ")):
            wrong.append(f"{option.key} is not served")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
