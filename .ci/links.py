"""Checks that links between the Markdown files lead somewhere: the file is there, and so is the heading."""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def dead_links(document: Path) -> list[str]:
    """Targets of this document's links that are not there; links to other hosts are not followed."""
    dead = []
    for target in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = document.parent / path if path else document
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            dead.append(target)
    return dead


def anchors(document: Path) -> set[str]:
    """The anchors that a Markdown file's headings make, in the way that code hosts make them."""
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def documents() -> list[Path]:
    """The Markdown files of the repository."""
    listing = subprocess.run(["git", "ls-files", "-z", "*.md"], check=True, capture_output=True, text=True).stdout
    return [path for path in map(Path, filter(None, listing.split("\0"))) if path.is_file()]


if __name__ == "__main__":
    lines = [f"{document}: dead link {target}" for document in documents() for target in dead_links(document)]
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
