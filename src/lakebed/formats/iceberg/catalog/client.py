"""Catalogs: open one by its name, and translate its failures into lakebed's errors.

A catalog is any of pyiceberg's (sql, rest, hive, glue, dynamodb ...). It is configured as pyiceberg documents it, and
options `lakebed.catalog.*` take precedence. Which answers to a commit mean that nothing was published follows the REST
specification's updateTable and the documentation of the catalogs' own clients. Any other failure leaves the outcome
unknown.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import ValidationError
from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    ForbiddenError,
    NoSuchIcebergTableError,
    NoSuchNamespaceError,
    NoSuchPropertyException,
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
from lakebed.formats.iceberg.catalog.demands import not_a_table
from lakebed.formats.iceberg.catalog.file_io import IMPLEMENTATION, OPENED, Opened, StoreFileIO, of_storage
from lakebed.formats.iceberg.codec.metadata import SCHEMAS
from lakebed.formats.iceberg.codec.schema import UNKNOWN_TO_PYICEBERG, for_pyiceberg
from lakebed.redaction import keep_secret, names_secret
from lakebed.verbs.catalog import CATALOG_OPTIONS

if TYPE_CHECKING:
    from requests import Response

_TYPES = ("sql", "rest", "hive", "glue", "dynamodb", "bigquery", "in-memory")
_EXTRAS = {"hive": "lakebed[hive]", "glue": "lakebed[glue]", "dynamodb": "lakebed[glue]"}
"""What to install for a type of catalog. For the other types it is pyiceberg's extra of the same name."""
_UNSURE = {408, 499}
"""Statuses below 500 that a proxy may answer while the catalog still carries out the request."""


def open_catalog(name: str, options: Mapping[str, str], opened: Opened | None = None) -> Catalog:
    """The catalog of a name. Its FileIOs share `opened`.

    UsageError when it is not configured or the configuration is wrong, RuntimeMissingError when its client is not
    installed, StorageError when it does not answer.
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
            f"unknown type of catalog {kind!r}",
            todo=f"Did you mean {near[0]!r}?" if near else f"Types: {', '.join(_TYPES)}",
        )
    if not given and name.lower() not in (names := list_catalogs()):
        raise UsageError(
            f"no catalog {name!r} is configured",
            why=f"pyiceberg's configuration has {', '.join(names) or 'none'}",
            todo=f"Configure it for pyiceberg (.pyiceberg.yaml, PYICEBERG_CATALOG__{name.upper()}__URI), or with "
            f"options {CATALOG_OPTIONS}type, {CATALOG_OPTIONS}uri ... One of Paimon tables needs "
            f"{CATALOG_OPTIONS}metastore",
        )
    try:
        catalog = load_catalog(name, **{**storage, **given, "py-io-impl": IMPLEMENTATION})
        opened = opened or Opened()
        catalog.properties[OPENED] = opened.name
        return _without_code(catalog, opened)
    except NotInstalledError as error:
        wanted = _EXTRAS.get(kind.lower()) or str(error).rpartition("pip install ")[2].strip("'")
        raise RuntimeMissingError(
            f"the client of the catalog {name!r} is not installed",
            why=first_line(error),
            todo=f'Install it: pip install "{wanted}"',
        ) from error
    except (ValueError, TypeError, ValidationError) as error:
        raise UsageError(
            f"cannot open the catalog {name!r}",
            why=first_line(error),
            todo=f"Check {CATALOG_OPTIONS}type ({', '.join(_TYPES)}) and {CATALOG_OPTIONS}uri",
        ) from error
    except Exception as error:
        raise catalog_error(error, name) from error


def _without_code(catalog: Catalog, opened: Opened) -> Catalog:
    """The catalog, with lakebed's own FileIO for every table, and with answers that pyiceberg's model takes.

    pyiceberg lets a table's property `py-io-impl` choose the class. lakebed does not run code that a table names.
    """
    here: Any = catalog
    if (session := getattr(catalog, "_session", None)) is not None:  # that of a REST catalog
        session.hooks["response"].append(_understood)

    def store_io(properties: Mapping[str, Any] = {}, location: str | None = None) -> StoreFileIO:
        return StoreFileIO({**catalog.properties, **properties}, opened)

    here._load_file_io = store_io
    return catalog


def _understood(response: Response, **_: Any) -> Response:
    """The answer of a REST catalog about a table, without the types that pyiceberg does not know. lakebed reads the
    metadata file itself."""
    if not response.ok or not any(name in response.content for name in UNKNOWN_TO_PYICEBERG):
        return response
    with suppress(ValueError):
        answer = response.json()
        metadata = answer.get("metadata") if isinstance(answer, dict) else None
        if isinstance(metadata, dict):
            schemas = {key: for_pyiceberg(metadata[key]) for key in SCHEMAS if key in metadata}
            here: Any = response
            here._content = msgspec.json.encode({**answer, "metadata": {**metadata, **schemas}})
    return response


@contextmanager
def asking(catalog: str, table: tuple[str, ...]) -> Iterator[None]:
    """Translates every failure of the block into a LakebedError. The block must change nothing in the catalog."""
    try:
        yield
    except LakebedError:
        raise
    except (NoSuchIcebergTableError, NoSuchPropertyException) as error:
        raise not_a_table(f"{catalog}:{'.'.join(table)}", first_line(error)) from error
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise TableNotFoundError(
            f"the catalog {catalog!r} has no table {'.'.join(table)!r}",
            why=first_line(error),
            todo="Check the spelling, as catalog:namespace.table",
        ) from error
    except (ValidationError, InvalidMetadata) as error:
        raise UnsupportedError(
            "pyiceberg cannot read the table", table=f"{catalog}:{'.'.join(table)}", why=first_line(error)
        ) from error
    except Exception as error:
        raise catalog_error(error, catalog) from error


def catalog_error(error: Exception, catalog: str) -> StorageError:
    """The error for the failure of a catalog, with what to do about it."""
    status = status_of(error)
    if _metastore_refused(error):
        by_position = "Set hive.metastore.disallow.incompatible.col.type.changes to false in the metastore"
        return StorageError(
            f"the catalog {catalog!r} refused",
            why=first_line(error),
            todo=by_position if "incompatible" in str(error) else "Look in its log for the reason",
        )
    if isinstance(error, (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError)) or status in (
        401,
        403,
    ):
        return StorageError(
            f"the catalog {catalog!r} refused",
            why=first_line(error),
            todo=f"Give credentials that may do this ({CATALOG_OPTIONS}token, {CATALOG_OPTIONS}credential, or those of "
            "its cloud), preferably in pyiceberg's configuration and not in options",
        )
    if status is not None and status < 500 and status not in (*_UNSURE, 429):
        return StorageError(
            f"the catalog {catalog!r} refused",
            why=first_line(error),
            todo="Look in its log for the reason",
        )
    return RetryableError(
        f"the catalog {catalog!r} did not answer as it should",
        why=first_line(error),
        todo=f"Check that it is running and that {CATALOG_OPTIONS}uri (or pyiceberg's configuration) points to it, "
        "then try again",
    )


def published_nothing(error: Exception) -> bool:
    """Whether a failed commit certainly changed nothing, because the catalog answered that it refused."""
    if isinstance(error, NotImplementedError) or _metastore_refused(error):
        return True
    status = status_of(error)
    return status is not None and status < 500 and status not in _UNSURE


def _metastore_refused(error: Exception) -> bool:
    """Whether a Hive metastore answered that a change is not allowed. Its client is only imported where it is used."""
    return type(error).__module__.startswith("hive_metastore.") and type(error).__name__ == "InvalidOperationException"


def status_of(error: Exception) -> int | None:
    """The HTTP status of an answer, from the client of a REST catalog (`requests`) or of Amazon; None without one."""
    cause: Any = error.__cause__ if error.__cause__ is not None else error
    response = getattr(cause, "response", None)
    status = getattr(response, "status_code", None)
    if status is None and isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status if isinstance(status, int) else None
