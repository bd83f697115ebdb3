"""Packs golden tables into the archives that `tests.golden.unpack` opens; the same folder always gives the same bytes.

    python -m tests.golden.pack FORMAT FOLDER [NAME ...]

FOLDER holds `NAME/` (Paimon: `golden.db/NAME/`) and beside it `NAME.expected/`; without names all of it is packed.
Owners, modes and file times do not go in. One exception: Hudi takes the completion time of an instant of table version
6 from its state file's modification time, so `.hoodie/<instant>.*` gets the time that the instant's own name says.
"""

import datetime
import lzma
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.golden import DATABASE, HERE

FILE_TIME = 1_700_000_000.0  # seconds since 1970 UTC: any fixed one
INSTANT_FILE = re.compile(r"^([1-9]\d{13})(\d{3})?(_\d+)?\.(.+)$")


def pack(table_format: str, folder: Path, name: str) -> Path:
    """Writes FORMAT/NAME.tar.xz from the table and its expected answers below `folder`, and returns its path."""
    archive = HERE / table_format / f"{name}.tar.xz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as xz, tarfile.open(fileobj=xz, mode="w") as tar:
        for source, member in _members(table_format, folder, name):
            info = tarfile.TarInfo(member)
            info.mtime = _file_time(source)
            if source.is_dir():
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
            else:
                info.size, info.mode = source.stat().st_size, 0o644
                with source.open("rb") as content:
                    tar.addfile(info, content)
    return archive


def table_names(folder: Path) -> list[str]:
    """The tables below `folder`, sorted."""
    database = folder / DATABASE
    root = database if database.exists() else folder
    return sorted(path.name for path in root.iterdir() if path.is_dir() and path.suffix != ".expected")


def _members(table_format: str, folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    prefix = f"{DATABASE}/" if (folder / DATABASE / name).exists() else ""
    answers = f"{name}.expected"
    beside = folder / prefix / answers
    roots = [folder / prefix / name, beside if beside.exists() else folder / answers]
    if table_format == "iceberg" and name == "added_files":
        roots.append(folder / "raw")  # the plain Parquet files that it took in
    for root in roots:
        for source in (root, *sorted(root.rglob("*"))):
            yield source, f"{prefix}{root.name}{str(source)[len(str(root)) :]}"


def _file_time(source: Path) -> float:
    match = INSTANT_FILE.match(source.name)
    if not match or ".hoodie" not in source.parts:
        return FILE_TIME
    seconds, milliseconds, completed, action = match.groups()
    instant = datetime.datetime.strptime(seconds, "%Y%m%d%H%M%S").replace(tzinfo=datetime.UTC)
    done = not completed and not action.endswith(("requested", "inflight"))
    return instant.timestamp() + int(milliseconds or 0) / 1000 + (0.0015 if done else 0.0005)  # seconds


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for table in sys.argv[3:] or table_names(Path(sys.argv[2])):
        print(pack(sys.argv[1], Path(sys.argv[2]), table))
