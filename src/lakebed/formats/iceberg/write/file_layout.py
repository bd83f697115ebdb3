"""The layout of data files that table properties ask for: format, compression, row groups, pages and bloom filters.

Rules: the table properties `write.parquet.*`, `write.orc.*` and `write.avro.*` of the reference engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.schema import Schema

from lakebed.errors import OptionError
from lakebed.formats.iceberg.unserved import refuse_plain_files

_CODECS = {
    "PARQUET": {"zstd": "zstd", "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "brotli": "brotli"},
    "ORC": {"zstd": "zstd", "zlib": "zlib", "snappy": "snappy", "lz4": "lz4"},
    "AVRO": {"zstd": "zstd", "gzip": "zstd", "snappy": "zstd"},
}
_DEFAULT_CODECS = {"PARQUET": "zstd", "ORC": "zlib", "AVRO": "gzip"}
_LEVELS = {"zstd": (1, 22), "gzip": (1, 9), "brotli": (0, 11)}
_DEFAULT_LEVEL = {"zstd": 3}
_BLOOM = "write.parquet.bloom-filter-enabled.column."
_BLOOM_FPP = "write.parquet.bloom-filter-fpp.column."


@dataclass(frozen=True, slots=True)
class Layout:
    """How files of a table are laid out. `group_bytes` bounds a row group, in bytes that its rows take in memory."""

    format: str
    codec: str
    level: int | None
    group_bytes: int
    page_bytes: int
    page_rows: int
    dictionary_bytes: int
    blooms: Mapping[str, float]
    """Column with a bloom filter -> share of false positives."""
    schema_json: str

    @classmethod
    def of(cls, properties: Mapping[str, str], schema: Schema) -> Layout:
        """The layout that table properties ask for. OptionError for a property out of range, UnsupportedError for
        encryption."""
        refuse_plain_files(properties)
        kind = properties.get("write.format.default", "parquet").strip().upper()
        if kind not in _CODECS:
            raise OptionError.ill_typed("write.format.default", kind.lower(), "parquet, orc or avro")
        codec, level = _compression(kind, properties)
        blooms = {
            key.removeprefix(_BLOOM): _share(properties, _BLOOM_FPP + key.removeprefix(_BLOOM), 0.01)
            for key, value in properties.items()
            if key.startswith(_BLOOM) and value.strip().lower() == "true"
        }
        return cls(
            kind,
            codec,
            level,
            _number(properties, "write.parquet.row-group-size-bytes", 128 << 20),
            _number(properties, "write.parquet.page-size-bytes", 1 << 20),
            _number(properties, "write.parquet.page-row-limit", 20_000),
            _number(properties, "write.parquet.dict-size-bytes", 2 << 20),
            blooms,
            schema.model_dump_json(),
        )

    @property
    def ending(self) -> str:
        """The extension of a file's name."""
        return self.format.lower()


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, str(default))
    if not text.strip().isdigit() or int(text) < 1:
        raise OptionError.ill_typed(key, text, "a whole number above 0, as the table property")
    return int(text)


def _share(properties: Mapping[str, str], key: str, default: float) -> float:
    text = properties.get(key, str(default))
    with suppress(ValueError):
        if 0 < (share := float(text)) < 1:
            return share
    raise OptionError.ill_typed(key, text, "a share between 0 and 1, as the table property")


def _compression(kind: str, properties: Mapping[str, str]) -> tuple[str, int | None]:
    """The codec as Arrow names it, and its level; None where there is none to set."""
    key = f"write.{kind.lower()}.compression-codec"
    word = properties.get(key, _DEFAULT_CODECS[kind]).strip().lower()
    if word in ("uncompressed", "none"):
        return "none", None
    if word not in _CODECS[kind]:
        raise OptionError.ill_typed(key, word, ", ".join([*_CODECS[kind], "uncompressed"]))
    codec = _CODECS[kind][word]
    level_key = f"write.{kind.lower()}.compression-level"
    text = properties.get(level_key)
    level = _DEFAULT_LEVEL.get(codec)
    if text is not None and codec in _LEVELS:
        low, high = _LEVELS[codec]
        if not text.strip().lstrip("-").isdigit() or not low <= int(text) <= high:
            raise OptionError.ill_typed(level_key, text, f"a level of {codec} from {low} to {high}")
        level = int(text)
    return codec, level
