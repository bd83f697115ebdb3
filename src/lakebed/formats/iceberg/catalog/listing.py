"""The names of the tables in one of pyiceberg's catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyiceberg.catalog import Catalog

from lakebed.formats.iceberg.catalog.client import asking, open_catalog


def namespaces_of(name: str, options: Mapping[str, str]) -> list[str]:
    """The namespaces of a catalog, the inner ones too, with dots between their levels. StorageError when it does not
    answer."""
    catalog = open_catalog(name, options)
    with asking(name, ()):
        return [".".join(parts) for parts in _inner(catalog, ())]


def tables_of(name: str, namespace: str, options: Mapping[str, str]) -> list[str]:
    """The tables of a namespace, without those of inner ones. TableNotFoundError when there is no such namespace."""
    catalog = open_catalog(name, options)
    parts = tuple(namespace.split("."))
    with asking(name, parts):
        return [str(identifier[-1]) for identifier in catalog.list_tables(parts)]


def _inner(catalog: Catalog, outer: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for found in catalog.list_namespaces(outer):
        namespace = found if found[: len(outer)] == outer else (*outer, *found)
        if len(namespace) > len(outer):
            yield namespace
            yield from _inner(catalog, namespace)
