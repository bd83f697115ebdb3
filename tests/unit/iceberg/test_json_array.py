"""Arrays of metadata that stay text until somebody asks for an item."""

from __future__ import annotations

import json
import pickle

import msgspec
import pytest

from lakebed.formats.iceberg.codec.json_array import JsonArray, document_from_json, document_to_json


class Id(msgspec.Struct):
    id: int


TEXT = b'{"a": 1, "items": [ {"id": 1, "x": "\xc3\xbc"} , {"id":2} ], "none": null}'


def test_an_array_is_as_its_items() -> None:
    document = document_from_json(TEXT, ("items", "none", "missing"))
    array = document["items"]
    assert isinstance(array, JsonArray) and document["none"] is None and document["a"] == 1
    assert [*array] == [array[0], array[1]] == json.loads(TEXT)["items"] == array
    assert array[1:] == [{"id": 2}] and len(array) == 2
    assert [item.id for item in array.read(Id)] == [1, 2]
    assert pickle.loads(pickle.dumps(array)) == array
    assert json.loads(document_to_json(document)) == json.loads(TEXT)
    assert b'{"id": 1, "x": "\xc3\xbc"}' in document_to_json(document)


def test_an_array_is_not_changed_by_a_longer_one() -> None:
    array = document_from_json(TEXT, ("items",))["items"]
    array.read(Id)
    longer = array.plus({"id": 3})
    assert len(array) == 2 and longer[2] == {"id": 3}
    assert [item.id for item in longer.read(Id)] == [1, 2, 3]
    assert longer.where(lambda item: item["id"] != 2) == [array[0], {"id": 3}]
    assert longer.only([2]) == [{"id": 3}]
    assert JsonArray.of(None) == [] and JsonArray.of([{"id": 5}]).read(Id)[0].id == 5


@pytest.mark.parametrize("text", [b"", b"[]", b'{"items": 3}', b'{"items": {}}', b'{"items": [}', b'{"items": []} x'])
def test_other_text_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        document_from_json(text, ("items",))


@pytest.mark.parametrize("item", [b"3", b'{"id": "1"}', b"{}", b"null"])
def test_an_item_without_a_wanted_value_is_refused(item: bytes) -> None:
    array = document_from_json(b'{"items": [%b]}' % item, ("items",))["items"]
    with pytest.raises(ValueError):
        array.read(Id)
