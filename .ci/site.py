"""Gathers what the documentation site is built of into a folder, for `./run docs`.

    python .ci/site.py FOLDER

The pages are the Markdown files of the repository, with links that hold inside the site, and those that the code gives:
every option, the Python API, what the benches measured. It fails where the menu in `.ci/site.yml` lacks a page, or
names one too many.
"""

import importlib
import os
import pkgutil
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import links
from site_figures import performance_page

import lakebed
import lakebed.callbacks
import lakebed.errors
import lakebed.hudi
import lakebed.paimon
import lakebed.spark
from lakebed.formats.hudi.unserved import UNSERVED as HUDI_UNSERVED
from lakebed.formats.hudi.unserved import UNSERVED_READS as HUDI_UNSERVED_READS
from lakebed.formats.iceberg.unserved import REFUSED as ICEBERG_REFUSED
from lakebed.formats.paimon.unserved import UNSERVED as PAIMON_UNSERVED
from lakebed.kernel.options import Option, OptionSet

LINK = re.compile(r"(\[[^\]]*\]|\[!\[[^\]]*\]\([^)]*\)\])\(([^()\s]+)\)")
CODE = re.compile(f"({links.CODE.pattern})", links.CODE.flags)
SETTINGS = Path(".ci/site.yml")
PICTURES = Path("docs/pictures")
FORMATS = {"hudi": "Hudi", "paimon": "Paimon", "iceberg": "Iceberg"}
FIRST = ("open", "create", "Table", "catalog", "tables", "sql", "example", "register", "snapshot", "migrate", "upkeep")
"""The names that one looks for first, in order."""


def main(folder: Path) -> int:
    """1 when the menu and the pages differ."""
    shutil.rmtree(folder, ignore_errors=True)
    own = folder / "pages"
    pages = {document: page_of(document) for document in links.documents() if document.parts[0] != "tests"}
    pictures = {picture: Path(*picture.parts[1:]) for picture in PICTURES.iterdir()}
    for document, page in pages.items():
        write(own / page, moved(document, pages | pictures))
    for picture, place in pictures.items():
        write(own / place, picture.read_text(encoding="utf-8"))
    write(own / "options.md", options_page())
    write(own / "api.md", api_page())
    write(own / "performance.md", performance_page())
    settings = SETTINGS.read_text(encoding="utf-8")
    write(folder / "mkdocs.yml", settings)
    (folder / "src").symlink_to(Path("src").absolute())
    there = {page.relative_to(own).as_posix() for page in own.rglob("*.md")}
    named = {*re.findall(r"^ *- [^:]+: (\S+\.md)$", settings, re.MULTILINE)}
    lines = [f"{SETTINGS}: the menu lacks {page}" for page in sorted(there - named) if page[:10] != "decisions/"]
    lines += [f"{SETTINGS}: there is no page {page}" for page in sorted(named - there)]
    print("\n".join(lines), end="\n" if lines else "")
    return int(bool(lines))


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


# ---- the repository's own documents ----------------------------------------------------------------------------------


def page_of(document: Path) -> Path:
    """The page that a document becomes. The site has the documents of docs/ at its top, beside the README."""
    if document == Path("README.md"):
        return Path("index.md")
    page = Path(*document.parts[1:]) if document.parts[0] == "docs" else document
    return page.with_name("index.md") if page.name == "README.md" else page


def moved(document: Path, pages: dict[Path, Path]) -> str:
    """The text of a document with links from its page. What is no page is told and not linked."""

    def link(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if re.match(r"[a-z][a-z0-9+.-]*:|#", target):
            return match[0]
        path, _, anchor = unquote(target).partition("#")
        there = Path(os.path.normpath(document.parent / path))
        page = pages.get(there) or pages.get(there / "README.md")
        if page is None:
            return words[1:-1]
        way = os.path.relpath(page, pages[document].parent)
        return f"{words}({quote(way)}{'#' + anchor if anchor else ''})"

    parts = CODE.split(document.read_text(encoding="utf-8"))
    # Code stays as it is; a link whose words are code is in two parts, and is put together again here.
    text, codes = "", []
    for number, part in enumerate(parts):
        if number % 2:
            codes.append(part)
            text += f"\0{len(codes) - 1}\0"
        else:
            text += part
    return re.sub("\0(\\d+)\0", lambda match: codes[int(match[1])], LINK.sub(link, text))


# ---- options ---------------------------------------------------------------------------------------------------------


def options_page() -> str:
    """Every option that has an effect, format by format."""
    parts = [
        "# Options\n\nEvery option that lakebed honours, by format. Keys are taken in any case. An unknown one is"
        " refused, and the error names the nearest. Those that are refused or have no effect are in these pages: "
        "[from Hudi's bundle](hudi-migration.md), [from Paimon's engines](paimon-migration.md),"
        " [from Iceberg's runtime](iceberg-migration.md).\n"
    ]
    for package, name in FORMATS.items():
        rows = [_row(option) for option in sorted(honoured(package), key=lambda option: option.key)]
        parts.append(f"## {name}\n\n| option | default | what it says |\n|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def honoured(package: str) -> list[Option[Any]]:
    """The options of a format that have an effect."""
    unserved = {*HUDI_UNSERVED, *HUDI_UNSERVED_READS} | {option.key for option in ICEBERG_REFUSED}
    unserved |= {name for option in PAIMON_UNSERVED for name in (option.key, *option.aliases)}
    found: dict[str, Option[Any]] = {}
    root = importlib.import_module(f"lakebed.formats.{package}")
    for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            for option in value.options if isinstance(value, OptionSet) else ():
                without = option.idle or option.doc.startswith("Accepted without effect")
                if not without and option.key not in unserved:
                    found.setdefault(option.key, option)
    return list(found.values())


def _row(option: Option[Any]) -> str:
    keys = " ".join(f"`{key}`" for key in (option.key, *option.aliases))
    return f"| {keys} | {_default(option)} | {_told(option.doc)} |"


def _default(option: Option[Any]) -> str:
    value = option.default
    if value is None or value == "" or not isinstance(value, bool | int | float | str):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _told(text: str) -> str:
    return text.replace("|", "\\|")


# ---- the API ---------------------------------------------------------------------------------------------------------


def api_page() -> str:
    """The public names, with the docstrings of what they are."""
    parts = [
        "# Python API\n",
        *_section("lakebed", lakebed, sorted({*lakebed.__all__} - {"errors"}, key=_place)),
        *_section("lakebed.spark", lakebed.spark, lakebed.spark.__all__),
        *_section("lakebed.hudi", lakebed.hudi, public(lakebed.hudi)),
        *_section("lakebed.paimon", lakebed.paimon, public(lakebed.paimon)),
        *_section("lakebed.callbacks", lakebed.callbacks, public(lakebed.callbacks)),
        *_section("lakebed.errors", lakebed.errors, public(lakebed.errors)),
    ]
    return "\n".join(parts)


def _place(name: str) -> tuple[int, str]:
    return FIRST.index(name) if name in FIRST else len(FIRST), name


def public(module: Any) -> list[str]:
    names = getattr(module, "__all__", None)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return list(names or [name for name in own if not name.startswith("_")])


def _section(title: str, module: Any, names: list[str]) -> Iterator[str]:
    yield f"## {title}\n"
    for name in names:
        value = getattr(module, name)
        if isinstance(value, type) or callable(value):
            place = f"{value.__module__}.{value.__qualname__}"
            yield f"::: {place}\n    options:\n      heading: {title}.{name}\n      toc_label: {name}\n"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
