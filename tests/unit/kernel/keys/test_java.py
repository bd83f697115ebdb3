"""Hashes of texts as Java has them."""

import random

import pyarrow as pa

from lakebed.kernel.keys.java import string_hashes


def hashed(text: str) -> int:
    units, state = text.encode("utf-16-le"), 0
    for at in range(0, len(units), 2):
        state = (31 * state + units[at] + 256 * units[at + 1]) % 2**32
    return state - 2**32 if state >= 2**31 else state


def test_texts_of_all_kinds() -> None:
    pick = random.Random(5)
    texts = ["", "hello", *("".join(pick.choices("ab0é☃😀\uffee", k=pick.randrange(30))) for _ in range(300))]
    assert string_hashes(pa.array(texts)).tolist() == [hashed(text) for text in texts]
    assert string_hashes(pa.array(texts).slice(1, 7)).tolist() == [hashed(text) for text in texts[1:8]]
    assert string_hashes(pa.array(["hello", "abc"])).tolist() == [99162322, 96354]
    assert string_hashes(pa.array([], pa.string())).tolist() == []
