"""The secret of an account, printed by a command: a password manager or a vault."""

import shlex
import subprocess

from broker.errors import ConfigError
from mqadmin.settings import text_of


def printed_secret(command: str, timeout_ms: int) -> str:
    """Run a command without a shell and return its output without blanks around it.

    The terminal is its own, so that it can ask for a pass phrase; ConfigError, without its output,
    if it fails, prints nothing, or is not done within ``timeout_ms``.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"secret key command: {error}", "are the quotes closed?") from None
    name = words[0] if words else ""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=timeout_ms / 1000, check=False)
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"secret key command {name}: not done within {timeout_ms} ms", "raise --timeout"
        ) from None
    except (OSError, IndexError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is empty"
        raise ConfigError(f"secret key command {name}: {reason}", "is it on PATH?") from None
    if done.returncode:
        raise ConfigError(
            f"secret key command {name}: exit status {done.returncode}", "run it to see why"
        )
    secret = text_of(done.stdout, f"secret key command {name}").strip()
    if not secret:
        raise ConfigError(f"secret key command {name}: it printed nothing")
    return secret
