"""Read a pipeline file: TOML, checked key by key before anything is opened.

    [source]    table: a location, or a name in a catalog. [source.options]: the table's own options
    [transform] sql: a query over the view `source`. Without it, all rows pass as they are
    [sink]      table, format, and for a table that does not exist yet primary_key and partition_by.
                [sink.options]: the table's own options
    [upkeep]    rewrite, expire, archive: after how many commits of the sink each runs. Without a key, never
    [run]       checkpoint: a folder (default: beside a sink that has a path). trigger: "available-now" (default:
                process what is there and end) or "continuous"

Relative paths are relative to the working directory.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakebed.errors import LakebedError, PipelineFileError, nearest_of
from lakebed.formats.opening import FORMATS, is_catalog_name
from lakebed.kernel.files import parse_location
from lakebed.kernel.options import option_text

AVAILABLE_NOW, CONTINUOUS = "available-now", "continuous"
UPKEEP_VERBS = ("rewrite", "expire", "archive")
"""The verbs of [upkeep], in the order in which they run when several are due."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline file that was checked. Locations are absolute; `file` is the path that it was read from."""

    file: str
    source: str
    source_options: Mapping[str, str]
    sql: str | None
    sink: str
    sink_format: str
    primary_key: tuple[str, ...]
    partition_by: tuple[str, ...]
    sink_options: Mapping[str, str]
    checkpoint: str
    trigger: str = AVAILABLE_NOW
    upkeep: Mapping[str, int] = field(default_factory=dict)
    """Per verb: after how many commits of the sink it runs."""


def load(path: str | os.PathLike[str]) -> Pipeline:
    """Read and check a pipeline file. No table is opened, and no Spark is needed.

    Raises PipelineFileError with the file, the key and what was expected. For an unknown key it suggests the nearest
    known one.
    """
    file = os.fspath(path)
    try:
        with open(file, "rb") as stream:
            document = tomllib.load(stream)
    except FileNotFoundError:
        raise PipelineFileError("there is no such pipeline file", file=file, todo="Check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineFileError("cannot read the pipeline file", file=file, why=str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError("this is not a TOML file", file=file, why=str(error)) from error
    return _Document(file, document).pipeline()


_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "source": ("table", "options"),
    "transform": ("sql",),
    "sink": ("table", "format", "primary_key", "partition_by", "options"),
    "run": ("checkpoint", "trigger"),
    "upkeep": UPKEEP_VERBS,
}
"""All sections with their keys."""


class _Document:
    """The content of one file. Each method checks the keys that it reads."""

    def __init__(self, file: str, content: Mapping[str, Any]) -> None:
        self._file, self._content = file, content

    def pipeline(self) -> Pipeline:
        """All keys, typed. The first mistake is raised."""
        self._known("", self._content, tuple(_SECTIONS))
        for section, keys in _SECTIONS.items():
            self._known(section, self._section(section), keys)
        sink = self._location("sink", "table")
        trigger = self._text("run", "trigger", AVAILABLE_NOW)
        if trigger not in (AVAILABLE_NOW, CONTINUOUS):
            raise self._expected("run.trigger", trigger, f'"{AVAILABLE_NOW}" or "{CONTINUOUS}"')
        format_name = self._text("sink", "format")
        if format_name.lower() not in FORMATS:
            raise self._expected("sink.format", format_name, f"one of {', '.join(FORMATS)}")
        return Pipeline(
            file=self._file,
            source=self._location("source", "table"),
            source_options=self._options("source"),
            sql=self._text("transform", "sql") if "transform" in self._content else None,
            sink=sink,
            sink_format=format_name.lower(),
            primary_key=self._names("sink", "primary_key"),
            partition_by=self._names("sink", "partition_by"),
            sink_options=self._options("sink"),
            checkpoint=self._location("run", "checkpoint", None if is_catalog_name(sink) else f"{sink}.checkpoint"),
            trigger=trigger,
            upkeep=self._upkeep(),
        )

    def _known(self, section: str, content: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        for key in content:
            if key not in keys:
                near = nearest_of(key, keys)
                what = f"unknown key {key!r} in [{section}]" if section else f"unknown section [{key}]"
                raise PipelineFileError(
                    what,
                    key=f"{section}.{key}".lstrip("."),
                    file=self._file,
                    todo=f"Did you mean {near!r}?" if near else f"Expected: {', '.join(keys)}",
                )

    def _section(self, name: str) -> Mapping[str, Any]:
        content = self._content.get(name, {})
        if not isinstance(content, dict):
            raise self._expected(name, content, f"a section, [{name}]")
        return content

    def _text(self, section: str, key: str, default: str | None = None) -> str:
        value = self._section(section).get(key, default)
        if value is None:
            raise self._error(f"{section}.{key}", "is missing", why="expected a text")
        if not isinstance(value, str) or not value.strip():
            raise self._expected(f"{section}.{key}", value, "a text that is not empty")
        return value

    def _location(self, section: str, key: str, default: str | None = None) -> str:
        text = self._text(section, key, default)
        if key == "table" and is_catalog_name(text):
            return text
        try:
            return parse_location(text).text
        except LakebedError as error:
            raise self._error(f"{section}.{key}", "is not a location", why=str(error)) from error

    def _names(self, section: str, key: str) -> tuple[str, ...]:
        value = self._section(section).get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
            raise self._expected(f"{section}.{key}", value, "a list of texts")
        return tuple(value)

    def _upkeep(self) -> dict[str, int]:
        """The verbs that the file names, each with its number of commits."""
        section = self._section("upkeep")
        for verb, count in section.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise self._expected(f"upkeep.{verb}", count, "a number of commits, at least 1")
        return {verb: section[verb] for verb in UPKEEP_VERBS if verb in section}

    def _options(self, section: str) -> dict[str, str]:
        """Options as texts. In TOML a key without quotes, `a.b = 1`, is a table inside a table. Here it means the key
        `a.b`."""
        value = self._section(section).get("options", {})
        if not isinstance(value, dict):
            raise self._expected(f"{section}.options", value, f"a section, [{section}.options]")
        return dict(self._flat(f"{section}.options", "", value))

    def _flat(self, place: str, prefix: str, content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for key, value in content.items():
            if isinstance(value, dict):
                yield from self._flat(place, f"{prefix}{key}.", value)
            elif isinstance(value, str | int | float | bool):
                yield f"{prefix}{key}", option_text(value)
            else:
                raise self._expected(f"{place}.{prefix}{key}", value, "a text, a number, true or false")

    def _expected(self, key: str, value: object, expected: str) -> PipelineFileError:
        return self._error(key, f"is {value!r}", why=f"expected {expected}")

    def _error(self, key: str, what: str, why: str = "", todo: str = "") -> PipelineFileError:
        return PipelineFileError(f"{key} {what}", key=key, file=self._file, why=why, todo=todo)
