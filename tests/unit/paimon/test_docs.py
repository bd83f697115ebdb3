"""The options table of docs/paimon-sink.md says what the code declares. `python -m tests.unit.paimon.test_docs` writes
it anew."""

from pathlib import Path

from lakebed.formats.paimon import options as opt

DOCUMENT = Path(__file__).parents[3] / "docs" / "paimon-sink.md"
HEAD = "| option | default | what it says |\n|---|---|---|\n"


def table() -> str:
    """A row an option, in the order of their declaration."""
    return HEAD + "".join(f"| `{option.key}` | {_default(option.default)} | {option.doc} |\n" for option in opt.SERVED)


def _default(value: object) -> str:
    if value is None or value == "":
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def test_the_options_are_those_of_the_code() -> None:
    assert DOCUMENT.read_text("utf-8").partition(HEAD)[2] == table().partition(HEAD)[2]


if __name__ == "__main__":
    DOCUMENT.write_text(DOCUMENT.read_text("utf-8").partition(HEAD)[0] + table(), "utf-8")
