"""Message ids given as options; apart from ``values`` because few commands need them."""

from broker.errors import ProtocolError
from broker.message.message_id import parse_uniq_key


def message_id(text: str) -> str:
    """Check an offsetMsgId or a uniqKey."""
    try:
        parse_uniq_key(text.strip())
    except ProtocolError as error:
        hint = error.hint or "an id has 32 or 56 hexadecimal digits"
        raise ValueError(f"{text!r:.80} is neither an offsetMsgId nor a uniqKey: {hint}") from error
    return text
