"""Archives small Hudi tables file by file, beside `writing`."""

import struct
from pathlib import Path

from lakebed.formats.hudi.codec.archive_entry import archived_entry
from lakebed.formats.hudi.codec.archive_schema import entry_schema
from lakebed.formats.hudi.codec.log import BlockKind, HeaderKey
from lakebed.formats.hudi.codec.log_write import record_content, write_block
from lakebed.formats.hudi.codec.lsm import LsmFile, lsm_batch, lsm_name, lsm_writer, manifest_json
from tests.tables.hudi.writing import HudiFolder, t


def archive(table: HudiFolder, instants: list[tuple[float, str]], number: int = 1) -> Path:
    """Moves completed instants of the active timeline into an archive file of their own."""
    found = []
    for instant, action in instants:
        file = next(p for p in table.timeline.iterdir() if p.name.startswith(t(instant)) and p.name.endswith(action))
        completed = file.name.partition(".")[0].partition("_")[2]
        found.append((t(instant), completed, action, file.read_bytes()))
        file.unlink()
    if table.version < 8:
        records = [archived_entry(time, action, "completed", data) for time, _, action, data in found]
        content = struct.pack(">i", 3) + record_content(records)[4:]
        folder = table.folder / ".hoodie" / "archived"
        folder.mkdir(exist_ok=True)
        path = folder / f".commits_.archive.{number}_1-0-1"
        path.write_bytes(write_block(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: entry_schema()}, content))
        return path
    folder = table.timeline / "history"
    folder.mkdir(exist_ok=True)
    path = folder / lsm_name(found[0][0], found[-1][0], 0)
    with lsm_writer(str(path)) as writer:
        writer.write_batch(lsm_batch([(time, done, action, data, None) for time, done, action, data in found]))
    files = [
        LsmFile(p.name, *p.name[:-8].split("_")[:2], 0, p.stat().st_size) for p in sorted(folder.glob("*.parquet"))
    ]
    (folder / f"manifest_{number}").write_bytes(manifest_json(files))
    (folder / "_version_").write_text(str(number))
    return path
