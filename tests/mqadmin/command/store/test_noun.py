"""The shared parameters of the noun ``store``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqadmin.command.framework.nouns import load_noun
from mqadmin.command.store.noun import stored_id


@pytest.mark.parametrize(
    "text",
    ["C0A8010A00002A9F0000000000000000", "7F0000012A9F18B4AAC21A4920400007", "ab" * 28],
)
def test_both_kinds_of_id_are_accepted(text: str) -> None:
    assert stored_id(text) == text


@pytest.mark.parametrize("text", ["", "order-4711", "A" * 31, "G" * 32, "0x" + "A" * 30, " " * 32])
def test_other_text_is_refused_with_the_option_that_finds_it(text: str) -> None:
    with pytest.raises(ValueError, match="neither an offsetMsgId nor a uniqKey") as caught:
        stored_id(text)
    assert "--key" in str(caught.value)


def test_long_text_is_not_repeated_in_full() -> None:
    with pytest.raises(ValueError) as caught:
        stored_id("Z" * 10_000)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("verb", ["inspect", "find --time 2000-01-01..", "export", "recover"])
def test_stored_bytes_of_no_body_are_refused(
    mqadmin: Callable[..., Any], golden_store: Callable[..., Path], verb: str
) -> None:
    words = ("store", *verb.split(), str(golden_store("normal-stop-533") / "store"), "--raw")
    done = mqadmin(*words)
    assert (done.status, done.out) == (2, "")
    assert "--raw applies to the body, but no body is shown" in done.err
    assert mqadmin(*words, "--body", "hex").status == 0


def test_only_the_documented_verbs_write() -> None:
    """According to the help every other verb opens files read-only."""
    noun = load_noun("store")
    writing = {
        verb.path
        for verb in noun.verbs.values()
        if any("--out" in getattr(p.marker, "names", ()) for p in verb.parameters)
    }
    text = " ".join(noun.paragraphs).replace("\n", " ")
    assert "Only repair, recover, copy, trim and export write" in text
    verbs = ("repair", "recover", "copy", "trim", "export")
    assert writing == {f"store {verb}" for verb in verbs}
