"""A name is claimed once, and only the bytes there tell whose it is."""

from pathlib import Path

import pytest

from lakebed.errors import CommitConflictError, NotWrittenError, RetryableError
from lakebed.kernel import clock
from lakebed.kernel.commit.claim import TRIES, ask_again, claim, put_new
from lakebed.kernel.files import PutOutcome, Store, open_store
from lakebed.testing.faults import Fault, FaultyStore, Kind

NAME, OURS, THEIRS = "metadata/v2.json", b"ours", b"theirs"
PUTS, READS = frozenset({"put_if_absent"}), frozenset({"read"})


class Waits:
    """Waits for nothing and remembers for how many seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path)


@pytest.fixture
def waits() -> Waits:
    return Waits()


def puts(kind: Kind, *numbers: int) -> list[Fault]:
    return [Fault(number, kind, PUTS) for number in numbers]


def verbs(store: FaultyStore) -> list[str]:
    return [call.verb for call in store.calls]


def test_a_free_name_is_ours_with_one_put(store: Store, waits: Waits) -> None:
    faulty = FaultyStore(store)
    assert claim(faulty, NAME, OURS, waits) is PutOutcome.CREATED
    assert (verbs(faulty), waits.seconds) == (["put_if_absent"], [])
    assert store.read(NAME) == OURS


@pytest.mark.parametrize("there", [THEIRS, OURS])
def test_a_name_that_was_taken_before_is_another_writers(store: Store, waits: Waits, there: bytes) -> None:
    store.write(NAME, there)
    faulty = FaultyStore(store)
    assert claim(faulty, NAME, OURS, waits) is PutOutcome.EXISTS
    assert (verbs(faulty), waits.seconds) == (["put_if_absent"], [])
    assert store.read(NAME) == there


@pytest.mark.parametrize("kind", [Kind.UNKNOWN_AFTER, Kind.ERROR_AFTER])
def test_after_a_put_without_an_answer_our_own_bytes_are_ours(store: Store, waits: Waits, kind: Kind) -> None:
    faulty = FaultyStore(store, *puts(kind, 1))
    assert claim(faulty, NAME, OURS, waits) is PutOutcome.CREATED
    assert (verbs(faulty), waits.seconds) == (["put_if_absent", "read"], [])


@pytest.mark.parametrize("kind", [Kind.UNKNOWN_BEFORE, Kind.ERROR_BEFORE])
def test_after_a_put_without_an_answer_other_bytes_are_another_writers(store: Store, waits: Waits, kind: Kind) -> None:
    store.write(NAME, THEIRS)
    assert claim(FaultyStore(store, *puts(kind, 1)), NAME, OURS, waits) is PutOutcome.EXISTS
    assert store.read(NAME) == THEIRS


@pytest.mark.parametrize("kind", [Kind.UNKNOWN_BEFORE, Kind.ERROR_BEFORE])
def test_a_name_that_stays_free_is_put_again_after_a_wait(store: Store, waits: Waits, kind: Kind) -> None:
    assert claim(FaultyStore(store, *puts(kind, 1, 2)), NAME, OURS, waits) is PutOutcome.CREATED
    assert waits.seconds == [0.1, 0.2]
    assert store.read(NAME) == OURS


def test_bytes_that_cannot_be_read_are_asked_for_again(store: Store, waits: Waits) -> None:
    faulty = FaultyStore(store, *puts(Kind.UNKNOWN_AFTER, 1), Fault(1, Kind.ERROR_BEFORE, READS))
    assert claim(faulty, NAME, OURS, waits) is PutOutcome.CREATED  # the second put meets our own bytes
    assert verbs(faulty) == ["put_if_absent", "read", "put_if_absent", "read"]
    assert waits.seconds == [0.1]


def test_a_rival_between_two_puts_wins(store: Store, waits: Waits) -> None:
    def rival(real: Store) -> None:
        real.write(NAME, THEIRS)

    faults = [*puts(Kind.UNKNOWN_BEFORE, 1), Fault(2, Kind.EXISTS, PUTS, rival)]
    assert claim(FaultyStore(store, *faults), NAME, OURS, waits) is PutOutcome.EXISTS
    assert store.read(NAME) == THEIRS


def test_a_store_that_never_answers_leaves_the_outcome_unknown(store: Store, waits: Waits) -> None:
    faulty = FaultyStore(store, *puts(Kind.ERROR_BEFORE, *range(1, TRIES + 1)))
    assert claim(faulty, NAME, OURS, waits) is PutOutcome.UNKNOWN
    assert verbs(faulty).count("put_if_absent") == TRIES
    assert waits.seconds == pytest.approx([0.1, 0.2, 0.4, 0.8])


class Refusing(FaultyStore):
    """Refuses every put after the first `allowed`, which get no answer."""

    def __init__(self, real: Store, allowed: int) -> None:
        super().__init__(real)
        self._allowed = allowed

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        self._allowed -= 1
        if self._allowed >= 0:
            return PutOutcome.UNKNOWN
        raise NotWrittenError("the disk is full", file=path)


def test_a_put_that_is_refused_at_once_was_never_made(store: Store, waits: Waits) -> None:
    with pytest.raises(NotWrittenError, match="the disk is full"):
        claim(Refusing(store, 0), NAME, OURS, waits)
    assert waits.seconds == []


def test_a_refusal_after_a_put_without_an_answer_says_nothing_about_that_put(store: Store, waits: Waits) -> None:
    assert claim(Refusing(store, 1), NAME, OURS, waits) is PutOutcome.UNKNOWN


@pytest.mark.parametrize(("failing", "calls"), [(0, 1), (2, 3), (9, 3)])
def test_a_store_that_fails_is_asked_again(failing: int, calls: int) -> None:
    asked: list[int] = []
    waits: list[float] = []

    def act() -> str:
        asked.append(len(asked))
        if len(asked) <= failing:
            raise RetryableError(f"no answer {len(asked)}")
        return "there"

    with clock.set_clock(pause=waits.append):
        if failing >= calls:
            with pytest.raises(RetryableError, match="no answer 3"):
                ask_again(act, 3)
        else:
            assert ask_again(act, 3) == "there"
    assert (len(asked), waits) == (calls, [0.1, 0.2][: calls - 1])


def test_files_are_put_where_nobody_else_has(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    store.write("a", b"mine")
    put_new(store, {"a": b"mine", "b": b"mine"}, "here")
    assert store.read("b") == b"mine"
    with pytest.raises(CommitConflictError, match="another writer has written here"):
        put_new(store, {"c": b"mine", "b": b"other"}, "here")
    assert store.read("b") == b"mine"
