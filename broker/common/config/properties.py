"""Java ``.properties`` text (broker.conf, namesrv.conf, UPDATE_BROKER_CONFIG bodies)."""

from collections.abc import Mapping

from broker.errors import ConfigError


def parse_properties(text: str) -> dict[str, str]:
    """Read ``.properties`` text: of equal keys the last is used, at the position of the first.

    Raises ConfigError with the cause for an invalid ``\\u`` escape.

    **Source:** java.util.Properties#load; RocketMQ MixAll#string2Properties.
    """
    import javaproperties

    try:
        return dict(javaproperties.loads(text))
    except javaproperties.InvalidUEscapeError as error:
        raise ConfigError(f"not a properties file: {error}") from None


def format_properties(values: Mapping[str, str], *, sort_keys: bool = False) -> str:
    """Write ``key=value`` lines with the escapes that Java and parse_properties decode.

    No timestamp comment is written: equal values give equal text.
    """
    import javaproperties

    return str(javaproperties.dumps(values, timestamp=None, sort_keys=sort_keys))
