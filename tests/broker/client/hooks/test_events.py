"""The numbers that trace records contain."""

from broker.client.hooks import events


def test_message_types_and_context_codes_are_javas_ordinals() -> None:
    assert (events.NORMAL_MSG, events.TRANS_MSG_HALF, events.DELAY_MSG) == (0, 1, 3)
    codes = (events.SUCCESS, events.TIME_OUT, events.EXCEPTION, events.RETURNED_NULL)
    assert (*codes, events.FAILED) == (0, 1, 2, 3, 4)
