"""The cache of tags codes: right, and bounded."""

from broker.common.java import string_hash
from broker.store.dispatch import tag_codes


def test_long_tags_are_not_remembered():
    codes = tag_codes.TagCodes()
    tag = b"t" * (tag_codes.MAX_KEPT_TAG_BYTES + 1)
    assert codes.code(tag) == string_hash(tag)
    assert codes.code(tag[1:]) == string_hash(tag[1:])
    assert list(codes.codes) == [tag[1:]]


def test_many_tags_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(tag_codes, "MAX_TAGS", 3)
    codes = tag_codes.TagCodes()
    for n in range(10):
        codes.code(b"t%d" % n)
        assert len(codes.codes) <= 3
