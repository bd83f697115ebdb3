"""Small decoded batches are kept: the same bytes are decoded once, and nothing else is ever taken for them."""

import io
import threading

import fastavro
import pyarrow as pa
import pytest

from lakebed.errors import CorruptError
from lakebed.kernel.avro import decode
from lakebed.kernel.avro.recent import Recent
from lakebed.kernel.scratch import Scratch

SCHEMA = fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]})


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def datums(*values: int) -> bytes:
    out = io.BytesIO()
    for value in values:
        fastavro.schemaless_writer(out, SCHEMA, {"n": value})
    return out.getvalue()


def decoded(count: int, *chunks: bytes, kind: str = "long") -> list[int]:
    return decode.decode_run([kind], [0], count, chunks, Scratch()).column(0).to_pylist()


def test_the_same_bytes_are_decoded_once_and_others_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptor that DataFusion reads from has the same number and size each time."""
    times, real = [], decode._decoded
    monkeypatch.setattr(decode, "_RECENT", Recent())
    monkeypatch.setattr(decode, "_decoded", lambda *all: times.append(1) or real(*all))
    assert decoded(2, datums(1, 2)) == decoded(2, datums(1, 2)) == [1, 2]
    assert len(times) == 1
    assert decoded(2, datums(2, 1)) == [2, 1]
    assert decoded(1, datums(2, 1)) == [2]  # fewer of the same
    assert decoded(2, datums(2), datums(1)) == [2, 1]  # the same in other pieces
    assert decoded(2, datums(2, 1), kind="int") == [2, 1]
    assert len(times) == 5


def test_what_cannot_be_decoded_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(CorruptError):
            decoded(3, datums(1, 2))


def test_a_run_without_a_proof_of_its_end_is_not_taken_for_one_with_it() -> None:
    recent = Recent()
    recent.batch(b"head", [0], 1, [b"x"], lambda: numbers(1))
    assert recent.batch(b"head marked", [0], 1, [b"x"], lambda: numbers(2)) == numbers(2)


def test_it_takes_no_more_than_it_may_and_drops_what_waited_longest() -> None:
    recent = Recent(most=200, each=60)
    asked: list[int] = []

    def ask(number: int, size: int = 1) -> pa.RecordBatch:
        return recent.batch(b"", [0], size, [b"%d" % number], lambda: asked.append(number) or numbers(*[number] * size))

    for number in (1, 2, 3, 4, 5, 1, 6, 1, 2):
        assert ask(number) == numbers(number)
    assert asked == [1, 2, 3, 4, 5, 6, 2] and recent.bytes == 5 * 40
    asked.clear()
    assert ask(7, 4) == ask(7, 4) == numbers(7, 7, 7, 7)  # larger than what is kept
    assert asked == [7, 7] and recent.bytes == 5 * 40
    long = [b"y" * 61]
    assert [recent.batch(b"", [0], 1, long, lambda n=n: numbers(n)) for n in (1, 2)] == [numbers(1), numbers(2)]


def test_threads_share_it() -> None:
    recent, wrong = Recent(most=400), []

    def work() -> None:
        for n in range(2000):
            if recent.batch(b"", [0], 1, [b"%d" % (n % 17)], lambda n=n: numbers(n % 17)) != numbers(n % 17):
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and 0 < recent.bytes <= 400
