"""Change `hoodie.properties`, which every reader and writer of a table goes by.

Rules: Hudi's `HoodieTableConfig.modify`. The file is first copied to `hoodie.properties.backup`, which readers take
where the file itself is missing or cut short; then it is replaced, and the copy removed. Call it only while holding the
table's lock: of two writers that change the file at once, one loses its change.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from lakebed.formats.hudi.codec.properties import parse_properties, properties_text
from lakebed.formats.hudi.config import PROPERTIES, TableConfig, config_from
from lakebed.kernel import clock
from lakebed.kernel.files import Store

_BACKUP = f"{PROPERTIES}.backup"


def update_properties(store: Store, changes: Mapping[str, str | None]) -> TableConfig:
    """Give properties of the table new values, or take those with None away. The table's settings after that.

    What another writer changed meanwhile is kept: the file is read again first. Nothing is written where nothing
    changes.
    """
    try:
        before = store.read(PROPERTIES)
    except FileNotFoundError:
        before = store.read(_BACKUP)
        store.write(PROPERTIES, before)
    properties = parse_properties(before)
    after = {key: value for key, value in properties.items() if changes.get(key, "") is not None}
    after.update({key: value for key, value in changes.items() if value is not None})
    if after != properties:
        store.write(_BACKUP, before)
        now = clock.moment(datetime.UTC)
        store.write(PROPERTIES, properties_text(after, f"Updated at {now.isoformat()}Z", now))
        store.delete(_BACKUP)
    return config_from(after, table=store.location)
