"""The definitions of a table's indexes: a file beside its properties, from table version 8 on.

Hudi's readers rule out partitions by an expression index that is defined here, whether or not the table's properties
name it as maintained. So an index that is kept no longer is taken out here first, then there.

Rules: Hudi's `HoodieIndexMetadata`, `ExpressionIndexSupport` and `SecondaryIndexSupport` (`isIndexAvailable`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from lakebed.formats.hudi.config import TableConfig
from lakebed.formats.hudi.layout import HOODIE
from lakebed.kernel.decoding import parsed_json
from lakebed.kernel.files import Store

DEFINITIONS = f"{HOODIE}/.index_defs/index.json"
_ALL = "indexDefinitions"


def definitions_file(config: TableConfig) -> str:
    """The path of the file."""
    return config.properties.get("hoodie.table.index.defs.path") or DEFINITIONS


def read_definitions(store: Store, config: TableConfig) -> dict[str, Any]:
    """The whole file, {} where there is none."""
    try:
        whole = parsed_json(store.read(definitions_file(config)))
    except (FileNotFoundError, ValueError):
        return {}
    return whole if isinstance(whole, dict) else {}


def definition_of(store: Store, config: TableConfig, index: str) -> Mapping[str, Any]:
    """The definition of an index among the table's index definitions; {} if there is none."""
    definition: Mapping[str, Any] = (read_definitions(store, config).get(_ALL) or {}).get(index) or {}
    return definition


def forget_definitions(store: Store, config: TableConfig, indexes: Collection[str]) -> None:
    """Take the definitions of indexes out, where there are some."""
    whole = read_definitions(store, config)
    known = whole.get(_ALL) or {}
    left = {name: each for name, each in known.items() if name not in indexes}
    if len(left) < len(known):
        store.write(definitions_file(config), json.dumps({**whole, _ALL: left}, indent=2).encode())
