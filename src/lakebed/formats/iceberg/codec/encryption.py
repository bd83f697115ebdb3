"""Encrypted tables, which lakebed neither reads nor writes: it has no client for key management.

Rule: the specification's "Encryption Keys" and the table property `encryption.key-id`. A table that names a key is
refused as a whole, since rows that lakebed wrote would not be encrypted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakebed.errors import UnsupportedError


def refuse_encrypted(document: Mapping[str, Any], keys: Iterable[tuple[int, Any]] = ()) -> None:
    """UnsupportedError for table metadata that names an encryption key, in any format version.

    `keys` has the id of each snapshot and what it names as the key of its manifest list, None for none.
    """
    properties = document.get("properties") or {}
    if properties.get("encryption.key-id"):
        raise encrypted("its property encryption.key-id names a key", str(document.get("location", "")))
    if document.get("encryption-keys"):
        raise encrypted("its metadata holds encryption keys", str(document.get("location", "")))
    for snapshot_id, key in keys:
        if key:
            why = f"the manifest list of snapshot {snapshot_id} has a key"
            raise encrypted(why, str(document.get("location", "")))


def encrypted(why: str, table: str = "", file: str = "") -> UnsupportedError:
    """The error for an encrypted table or file."""
    return UnsupportedError(
        "the table is encrypted" if not file else "a file of the table is encrypted",
        table=table,
        file=file,
        why=why,
        todo="Read and write it with an engine that supports its key management, such as Iceberg's own",
    )
