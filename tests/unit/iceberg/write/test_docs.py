"""The options table of docs/iceberg-sink.md says what the code declares. `python -m tests.unit.iceberg.write.test_docs`
writes it anew."""

from pathlib import Path

from lakebed.formats.iceberg.write.options import OPTIONS

DOCUMENT = Path(__file__).parents[4] / "docs" / "iceberg-sink.md"
HEAD = "| option | table property | default | what it says |\n|---|---|---|---|\n"


def table() -> str:
    """A row per option, in the order of their declaration."""
    return HEAD + "".join(
        f"| `{option.key}` | {', '.join(f'`{alias}`' for alias in option.aliases)} | {_default(option.default)} | "
        f"{option.doc} |\n"
        for option in OPTIONS.options
    )


def _default(value: object) -> str:
    return "" if value is None or value in ("", ()) else f"`{value}`"


def test_the_options_are_those_of_the_code() -> None:
    assert DOCUMENT.read_text("utf-8").partition(HEAD)[2] == table().partition(HEAD)[2]


if __name__ == "__main__":
    DOCUMENT.write_text(DOCUMENT.read_text("utf-8").partition(HEAD)[0] + table(), "utf-8")
