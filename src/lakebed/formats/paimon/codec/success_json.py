"""The content of files that say that something is complete, in JSON. Rules: Paimon's SuccessFile."""

from __future__ import annotations

import json
from contextlib import suppress


def success_json(before: bytes | None, now: int) -> bytes:
    """The content at a time in milliseconds since 1970. What was there `before` keeps its time of creation, where it
    has one."""
    created = now
    with suppress(ValueError, KeyError, TypeError):
        created = int(json.loads(before or b"")["creationTime"])
    return json.dumps({"creationTime": created, "modificationTime": now}, indent=2).encode()
