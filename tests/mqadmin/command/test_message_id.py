"""Message ids as options: the text is returned unchanged, or a ValueError names the reason."""

import pytest

from mqadmin.command.message import checked_id

UNIQ_KEY = "7F00000100002A9F0000000000000123"


def test_a_valid_id_is_returned_unchanged() -> None:
    assert checked_id(UNIQ_KEY) == UNIQ_KEY


def test_an_invalid_id_has_a_reason() -> None:
    with pytest.raises(ValueError, match="neither an offsetMsgId nor a uniqKey"):
        checked_id("xyz")
