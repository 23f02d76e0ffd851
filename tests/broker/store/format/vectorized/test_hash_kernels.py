"""Hashes over columns are Java's, by both ways."""

import random

import pytest

np = pytest.importorskip("numpy", reason="the column scanner needs the extra 'fast'")

from broker.common.java import string_hash  # noqa: E402
from broker.message.message import MessageExt  # noqa: E402
from broker.message.record import encode_record  # noqa: E402
from broker.store.format.indexfile import index_key_hash, message_keys  # noqa: E402
from broker.store.format.vectorized.columns import scan_columns  # noqa: E402
from broker.store.format.vectorized.hash_kernels import (  # noqa: E402
    equal_slices,
    hash_slices,
    key_hashes,
    key_seeds,
    key_slices,
)
from broker.store.format.vectorized.loops import compiled  # noqa: E402

WAYS = [False, True] if compiled() else [False]


def words(rng: random.Random, count: int) -> list[str]:
    alphabet = "abcXYZ019%-_|"
    return ["".join(rng.choices(alphabet, k=rng.choice([0, 1, 5, 40]))) for _ in range(count)]


@pytest.mark.parametrize("use_compiled", WAYS)
def test_hashes_are_java_hashes(rng: random.Random, use_compiled: bool) -> None:
    texts = words(rng, 300)
    data = "".join(texts).encode()
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    view = np.frombuffer(data, dtype=np.uint8)
    found = hash_slices(view, starts, lengths, use_compiled=use_compiled)
    assert found.tolist() == [string_hash(text) for text in texts]
    seeds = np.array([string_hash("topic#")] * len(texts), dtype=np.int64)
    found = hash_slices(view, starts, lengths, seeds, use_compiled=use_compiled)
    assert key_hashes(found).tolist() == [index_key_hash("topic", text) for text in texts]


def test_the_hash_without_an_absolute_value_is_0() -> None:
    # The hash of TopicA#ArqA7mh is -2^31.
    hashes = np.array([string_hash("TopicA#ArqA7mh"), -5, 7], dtype=np.int64)
    assert hashes[0] == -(1 << 31)
    assert key_hashes(hashes).tolist() == [0, 5, 7]
    topics = np.array([string_hash("TopicA")], dtype=np.int64)
    assert key_seeds(topics).tolist() == [string_hash("TopicA#")]


@pytest.mark.parametrize("use_compiled", WAYS)
def test_a_negative_length_is_refused(use_compiled: bool) -> None:
    view = np.frombuffer(b"abc", dtype=np.uint8)
    starts, lengths = np.array([0, 0]), np.array([-1, 3])
    assert hash_slices(view, starts, lengths, use_compiled=use_compiled).tolist() == [
        0,
        string_hash("abc"),
    ]


@pytest.mark.parametrize("use_compiled", WAYS)
def test_equal_slices(use_compiled: bool) -> None:
    one = np.frombuffer(b"orders payments ord", dtype=np.uint8)
    other = np.frombuffer(b"orders", dtype=np.uint8)
    starts, lengths = np.array([0, 7, 16, 0]), np.array([6, 8, 3, 5])
    zeros, six = np.zeros(4, dtype=np.int64), np.full(4, 6)
    found = equal_slices(one, (starts, lengths), other, (zeros, six), use_compiled=use_compiled)
    assert found.tolist() == [True, False, False, False]
    found = equal_slices(one, (starts, lengths), one, (starts, lengths), use_compiled=use_compiled)
    assert found.all()


@pytest.mark.parametrize("use_compiled", WAYS)
def test_key_slices_are_the_words_of_the_index(rng: random.Random, use_compiled: bool) -> None:
    log = bytearray()
    expected: list[tuple[int, str]] = []
    for row in range(200):
        uniq = rng.choice(["", "U" * 32, "u1"])
        keys = rng.choice(["", "one", "two words", " a  b ", " ", "k" * 50])
        raw = f"UNIQ_KEY\x01{uniq}\x02KEYS\x01{keys}\x02".encode()
        log += encode_record(MessageExt("topic", b"", raw, physical_offset=len(log)))
        expected += [(row, word) for word in message_keys(uniq or None, keys or None)]
    view = np.frombuffer(bytes(log), dtype=np.uint8)
    (batch,) = scan_columns(bytes(log), 0)
    rows = np.arange(batch.count)
    which, starts, lengths = key_slices(view, batch, rows, use_compiled=use_compiled)
    found = [
        (int(row), log[at : at + length].decode())
        for row, at, length in zip(which, starts, lengths, strict=True)
    ]
    assert found == expected
