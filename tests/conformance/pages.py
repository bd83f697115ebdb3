"""Pages of the documentation that the code makes: written anew, or held against what they should be."""

import sys
from pathlib import Path


def written_or_checked(page: Path, text: str, arguments: list[str]) -> int:
    """Write a page; with `--check` only compare. 0 when the page holds, or now holds, what is so."""
    if "--check" not in arguments:
        page.write_text(text, encoding="utf-8")
        return 0
    wrong = page.read_text(encoding="utf-8") != text
    if wrong:
        print(f"{page.name} is not what holds; write it anew", file=sys.stderr)
    return int(wrong)
