"""From a location to its store."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakebed.kernel.files.credentials import credentials_from
from lakebed.kernel.files.local import LocalStore
from lakebed.kernel.files.location import parse_location
from lakebed.kernel.files.objects import RemoteStore
from lakebed.kernel.files.store import Store


def open_store(location: str | os.PathLike[str], options: Mapping[str, str] | None = None) -> Store:
    """The store of a path or URL; nothing is read yet. `options` may hold `lakebed.storage.*` keys, others are ignored."""
    place = parse_location(location)
    if place.is_local:
        return LocalStore(place.text)
    return RemoteStore(place.text, credentials_from(options or {}))
