"""Open the store of a location."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakebed.kernel.files.credentials import Credentials, credentials_from
from lakebed.kernel.files.local import LocalStore
from lakebed.kernel.files.location import parse_location
from lakebed.kernel.files.objects import RemoteStore
from lakebed.kernel.files.store import Store


def open_store(
    location: str | os.PathLike[str],
    options: Mapping[str, str] | None = None,
    credentials: Credentials | None = None,
) -> Store:
    """The store of a path or URL. Nothing is read yet. Only the `lakebed.storage.*` keys of `options` matter, and none
    where there are `credentials`."""
    place = parse_location(location)
    credentials = credentials or credentials_from(options or {})  # a mistake in them is reported for a local table too
    return LocalStore(place.text) if place.is_local else RemoteStore(place.text, credentials)
