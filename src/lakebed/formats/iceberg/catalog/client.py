"""Opens a catalog by its name, and says in lakebed's words what went wrong with one.

A catalog is any of pyiceberg's (sql, rest, hive, glue, dynamodb ...), configured as pyiceberg has it; options
`lakebed.catalog.*` lie over that. Which answers to a commit mean that nothing was published is the REST specification's
updateTable and what the catalogs' own clients document; every other failure leaves the outcome open.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    OAuthError,
    UnauthorizedError,
)
from pyiceberg.exceptions import ValidationError as InvalidMetadata

from lakebed.errors import (
    LakebedError,
    RetryableError,
    RuntimeMissingError,
    StorageError,
    TableNotFoundError,
    UnsupportedError,
    UsageError,
    first_line,
)
from lakebed.formats.iceberg.catalog.file_io import IMPLEMENTATION, StoreFileIO, of_storage
from lakebed.redaction import keep_secret, names_secret

CATALOG_OPTIONS = "lakebed.catalog."
"""Options with this prefix are properties of the catalog, over those of pyiceberg's own configuration."""
_TYPES = ("sql", "rest", "hive", "glue", "dynamodb", "bigquery", "in-memory")
_EXTRAS = {"hive": "lakebed[hive]", "glue": "lakebed[glue]", "dynamodb": "lakebed[glue]"}
"""What to install for a type of catalog; for the others pyiceberg's extra has the type's name."""
_UNSURE = {408, 499}
"""Statuses below 500 that a proxy answers with while the request may still be carried out."""


def open_catalog(name: str, options: Mapping[str, str]) -> Catalog:
    """The catalog of a name.

    UsageError when nothing of that name is configured or the configuration makes none, RuntimeMissingError when its
    client is not installed, StorageError when it does not answer.
    """
    given: dict[str, Any] = {
        key.removeprefix(CATALOG_OPTIONS): int(value) if key.endswith(".max-retries") and value.isdigit() else value
        for key, value in options.items()
        if key.startswith(CATALOG_OPTIONS)
    }
    for key, value in options.items():
        if names_secret(key):
            keep_secret(value)
    storage = {key: value for key, value in options.items() if of_storage(key)}
    kind = given.get("type", "")
    if kind and kind.lower() not in _TYPES:
        near = difflib.get_close_matches(kind.lower(), _TYPES, n=1)
        raise UsageError(
            f"there is no type of catalog {kind!r}",
            todo=f"Did you mean {near[0]!r}?" if near else f"Types: {', '.join(_TYPES)}",
        )
    if not given and name.lower() not in (known := list_catalogs()):
        raise UsageError(
            f"no catalog {name!r} is configured", why=f"pyiceberg's configuration has {', '.join(known) or 'none'}",
            todo=f"Configure it for pyiceberg (.pyiceberg.yaml, PYICEBERG_CATALOG__{name.upper()}__URI), or by options "
            f"{CATALOG_OPTIONS}type, {CATALOG_OPTIONS}uri ...",
        )  # fmt: skip
    try:
        return _without_code(load_catalog(name, **{**storage, **given, "py-io-impl": IMPLEMENTATION}))
    except NotInstalledError as error:
        wanted = _EXTRAS.get(kind.lower()) or str(error).rpartition("pip install ")[2].strip("'")
        raise RuntimeMissingError(
            f"the client of the catalog {name!r} is not installed", why=first_line(error),
            todo=f'Install it: pip install "{wanted}"',
        ) from error  # fmt: skip
    except (ValueError, TypeError, ValidationError) as error:
        raise UsageError(
            f"cannot open the catalog {name!r}", why=first_line(error),
            todo=f"Check {CATALOG_OPTIONS}type ({', '.join(_TYPES)}) and {CATALOG_OPTIONS}uri",
        ) from error  # fmt: skip
    except Exception as error:
        raise in_our_words(error, name) from error


def _without_code(catalog: Catalog) -> Catalog:
    """The catalog, with lakebed's own FileIO whatever a table says: pyiceberg lets a table's property `py-io-impl`
    choose the class, and what a table names is not run."""
    here: Any = catalog

    def store_io(properties: Mapping[str, Any] = {}, location: str | None = None) -> StoreFileIO:
        return StoreFileIO({**catalog.properties, **properties})

    here._load_file_io = store_io
    return catalog


@contextmanager
def asking(catalog: str, table: tuple[str, ...]) -> Iterator[None]:
    """Within the block a catalog is asked about a table, which changes nothing: every failure is put in our words."""
    try:
        yield
    except LakebedError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise TableNotFoundError(
            f"the catalog {catalog!r} has no table {'.'.join(table)!r}", why=first_line(error),
            todo="Check the spelling, as catalog:namespace.table",
        ) from error  # fmt: skip
    except (ValidationError, InvalidMetadata) as error:
        raise UnsupportedError(
            "pyiceberg cannot read the table", table=f"{catalog}:{'.'.join(table)}", why=first_line(error)
        ) from error
    except Exception as error:
        raise in_our_words(error, catalog) from error


def in_our_words(error: Exception, catalog: str) -> StorageError:
    """The failure of a catalog, and what to do about it."""
    status = _status(error)
    if isinstance(error, (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError)) or status in (
        401, 403,
    ):  # fmt: skip
        return StorageError(
            f"the catalog {catalog!r} refused", why=first_line(error),
            todo=f"Give credentials that may do this ({CATALOG_OPTIONS}token, {CATALOG_OPTIONS}credential, or those of "
            "its cloud), in pyiceberg's configuration rather than in options",
        )  # fmt: skip
    if status is not None and status < 500 and status not in (*_UNSURE, 429):
        return StorageError(
            f"the catalog {catalog!r} refused", why=first_line(error),
            todo="See its own log for what it does not allow",
        )  # fmt: skip
    return RetryableError(
        f"the catalog {catalog!r} did not answer as it should", why=first_line(error),
        todo=f"Check that it runs and that {CATALOG_OPTIONS}uri (or pyiceberg's configuration) leads to it, then try "
        "again",
    )  # fmt: skip


def published_nothing(error: Exception) -> bool:
    """Whether a failed commit is known to have changed nothing: the catalog answered that it refused."""
    if isinstance(error, NotImplementedError):
        return True
    status = _status(error)
    return status is not None and status < 500 and status not in _UNSURE


def _status(error: Exception) -> int | None:
    """The HTTP status of an answer: of a REST catalog's client (`requests`) or of Amazon's."""
    cause: Any = error.__cause__ if error.__cause__ is not None else error
    response = getattr(cause, "response", None)
    found = getattr(response, "status_code", None)
    if found is None and isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return found if isinstance(found, int) else None
