"""A credential provider as users write it, whose keys end soon: whoever works longer must ask for new ones."""

from __future__ import annotations

import datetime

SECONDS = 1
GIVEN: list[datetime.datetime] = []
"""When this process was given keys."""


def renewing() -> dict[str, object]:
    """The provider: `tests.spark.keys_that_end:renewing`."""
    return {"credential_provider": _keys}


def _keys() -> dict[str, object]:
    GIVEN.append(datetime.datetime.now(datetime.UTC))
    ends = GIVEN[-1] + datetime.timedelta(seconds=SECONDS)
    return {"access_key_id": "key", "secret_access_key": "hushhush", "token": None, "expires_at": ends}
