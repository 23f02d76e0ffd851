"""The account of Java's tool: accessKey and secretKey in ``conf/tools.yml``."""

from typing import Final

import yaml

from broker.errors import ConfigError
from mqadmin.settings import read_text

LIMIT_BYTES: Final = 1024 * 1024


def java_account(path: str) -> tuple[str, str] | None:
    """Return access key and secret of a file, None unless both are there and not blank.

    ConfigError with the line, never its content, for a file that is not YAML.

    **Source:** RocketMQ ``AclUtils#getAclRPCHook``.
    """
    try:
        content = yaml.safe_load(read_text(path, LIMIT_BYTES))
    except yaml.MarkedYAMLError as error:
        place = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise ConfigError(f"{path}{place}: it is not valid YAML", "accessKey: KEY") from None
    except yaml.YAMLError:
        raise ConfigError(f"{path}: it is not valid YAML", "accessKey: KEY") from None
    if not isinstance(content, dict):
        return None
    values = [str(content.get(name) or "").strip() for name in ("accessKey", "secretKey")]
    return (values[0], values[1]) if all(values) else None
