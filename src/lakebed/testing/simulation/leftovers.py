"""Which files of a table its metadata names, found without lakebed's own readers: from the files that a table begins
with, every text in JSON or Avro that is the name of a file leads on.

Data files and manifests have names that no other file has, so a name is enough, wherever the file lies.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from lakebed.kernel.avro.records import read_records
from lakebed.testing.simulation.memory import Content

_DELETED = 2
"""The status of an Iceberg entry whose file the manifest's snapshot took away."""


def named(
    files: Mapping[str, Content],
    roots: Iterable[str],
    only_live: bool = False,
    of_root: Callable[[str, Any], Any] = lambda path, document: document,
) -> set[str]:
    """The paths of the roots, of all files that they name, and of those that these name in turn.

    Only Avro files and JSON roots are looked into: an older metadata file, which a newer one names, leads no further.
    `only_live`: of an entry of an Iceberg manifest its own file counts, and none where the entry says that it is gone.
    Nobody reads such a file any more: an expiry that died has left it to the clean-up.
    `of_root`: the part of a root's JSON that counts, by the root's path.
    """
    texts_of = _live_texts_of if only_live else _texts_of
    by_name = {path.rpartition("/")[2]: path for path in files}
    reached: set[str] = set()
    waiting = [*roots]
    texts: list[str] = []
    for path in waiting:
        reached.add(path)
        texts += _texts(of_root(path, json.loads(files[path].data)))
    while texts:
        path = by_name.get(texts.pop().rpartition("/")[2], "")
        if path and path not in reached:
            reached.add(path)
            texts += texts_of(files[path].data)
    return reached


def taken_back(files: Mapping[str, Content], roots: Iterable[str]) -> set[str]:
    """The names of the data files that only entries of Paimon manifests name which the same snapshot takes back: the
    files that an expiry which died has left to the next one. `roots` are the paths of the snapshots and tags."""
    entered: set[str] = set()
    live: set[str] = set()
    for root in roots:
        counts = Counter[tuple[str, Any]]()
        for key, manifests in json.loads(files[root].data).items():
            if key.endswith("ManifestList") and manifests:
                for name in _texts_of(_data(files, manifests)):
                    for entry, sign in _entries_of(_data(files, name)) if name.startswith("manifest-") else ():
                        counts[entry] += sign
        entered |= {name for name, _ in counts}
        live |= {name for (name, _), count in counts.items() if count > 0}
    return entered - live


def live_entries(files: Mapping[str, Content], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of the files that a Paimon snapshot has, as its manifests hold them. `root` is the snapshot."""
    live: dict[Any, Mapping[str, Any]] = {}
    for key in ("baseManifestList", "deltaManifestList"):
        for meta in _records_of(_data(files, root[key])):
            for entry in _records_of(_data(files, meta["_FILE_NAME"])):
                place = entry["_PARTITION"], entry["_BUCKET"], entry["_FILE"]["_FILE_NAME"], entry["_FILE"]["_LEVEL"]
                if entry["_KIND"]:
                    live.pop(place, None)
                else:
                    live[place] = entry
    return [*live.values()]


def live_data_files(files: Mapping[str, Content], root: str) -> list[str]:
    """The names of the data files that the newest snapshot of an Iceberg table has. `root` is the current metadata."""
    metadata = json.loads(files[root].data)
    snapshots = {one["snapshot-id"]: one for one in metadata.get("snapshots") or ()}
    newest = snapshots.get(metadata.get("current-snapshot-id"))
    by_name = {path.rpartition("/")[2]: path for path in files}

    def records(path: str) -> Iterable[Mapping[str, Any]]:
        return _records_of(files[by_name[path.rpartition("/")[2]]].data)

    manifests = [one["manifest_path"] for one in records(newest["manifest-list"])] if newest else []
    entries = [entry for path in manifests for entry in records(path)]
    live = [one["data_file"] for one in entries if one["status"] != _DELETED and not one["data_file"]["content"]]
    return [file["file_path"].rpartition("/")[2] for file in live]


@lru_cache(512)
def _records_of(data: bytes) -> tuple[Mapping[str, Any], ...]:
    return tuple(read_records(data, numbers=True)) if data.startswith(b"Obj\x01") else ()


def _data(files: Mapping[str, Content], name: str) -> bytes:
    file = files.get(f"manifest/{name}")
    return file.data if file is not None else b""


@lru_cache(512)
def _entries_of(data: bytes) -> tuple[tuple[tuple[str, Any], int], ...]:
    """The name and the level of each entry's file: 1 where it comes, -1 where it goes."""
    if not data.startswith(b"Obj\x01"):
        return ()
    records = [record for record in read_records(data) if "_FILE" in record]
    return tuple(((r["_FILE"]["_FILE_NAME"], r["_FILE"]["_LEVEL"]), -1 if r["_KIND"] else 1) for r in records)


@lru_cache(512)
def _texts_of(data: bytes) -> tuple[str, ...]:
    """All texts in an Avro file; none where it is no such file."""
    if not data.startswith(b"Obj\x01"):
        return ()
    return tuple(text for record in read_records(data) for text in _texts(record))


@lru_cache(512)
def _live_texts_of(data: bytes) -> tuple[str, ...]:
    """As `_texts_of`; of the entries of an Iceberg manifest only the paths of their files, if they are live."""
    if not data.startswith(b"Obj\x01"):
        return ()
    records = [*read_records(data)]
    entries = [record for record in records if "data_file" in record]
    live = [entry["data_file"]["file_path"] for entry in entries if entry["status"] != _DELETED]
    return (*live, *(text for record in records if "data_file" not in record for text in _texts(record)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
