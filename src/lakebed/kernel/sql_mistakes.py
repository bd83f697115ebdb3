"""What is wrong with a text that sqlglot cannot read, in words for the text's author."""

from __future__ import annotations

from sqlglot.errors import ParseError, TokenError


def mistake_in(error: Exception, *, lines: bool = False) -> str:
    """What sqlglot, or Python's stack, could not take. sqlglot's own messages name its classes and quote all of it.
    `lines` says the line also where it is the first one."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, TokenError):
        return "a quote, a comment or a parenthesis has no end"
    problem = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    description, near, line = str(problem.get("description") or ""), near_mistake(error), int(problem.get("line") or 1)
    if description.startswith("Required keyword") or "SENTINEL" in description:
        what = f"something is missing {near}".rstrip()
    elif description.startswith("Expecting "):
        what = f"{description.removeprefix('Expecting ')} is missing {near}".rstrip()
    else:
        what = f"it cannot be read {near}".rstrip()
    return f"{what} in line {line}" if lines or line > 1 else what


def near_mistake(error: Exception) -> str:
    """ "near" and the piece of the text where sqlglot stopped. "" where it does not say."""
    problem = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    piece = str(problem.get("highlight") or "")
    return f"near {piece!r}" if piece else ""
