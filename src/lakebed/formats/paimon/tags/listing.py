"""The names that snapshots of a table have: its branches, and the tags of one of them."""

from __future__ import annotations

from lakebed.errors import CorruptError
from lakebed.formats.paimon.codec.tag_json import Tag, tag_from_json
from lakebed.formats.paimon.layout import MAIN_BRANCH, tag_path
from lakebed.formats.paimon.snapshot import History
from lakebed.model.refs import Ref


def list_refs(history: History) -> list[Ref]:
    """The branches of a table, then the tags of the branch of this history, each by name."""
    store, names = history.store, sorted(history.tags())
    branches = sorted([MAIN_BRANCH, *history.branches()])
    newest = store.together(lambda branch: history.on_branch(branch).latest_id(), branches)
    refs = [Ref(branch, "branch", str(number or "")) for branch, number in zip(branches, newest, strict=True)]
    for name, tag in zip(names, store.together(lambda name: _tag(history, name), names), strict=True):
        ends = tag.ends.isoformat(timespec="milliseconds") if tag is not None and tag.ends is not None else ""
        refs.append(Ref(name, "tag", str(tag.snapshot.id) if tag is not None else "", ends))
    return refs


def _tag(history: History, name: str) -> Tag | None:
    """A tag; None where its file is gone or none of a tag."""
    try:
        return tag_from_json(history.store.read(tag_path(history.branch, name)))
    except (FileNotFoundError, CorruptError):
        return None
