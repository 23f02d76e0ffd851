"""Secrets in settings: detect and mask them.

Real broker.conf files contain passwords and access keys under keys unknown to this project.
Therefore keys are recognised by name patterns, structured values by the field names they contain.
"""

import re
from collections.abc import Mapping

MASK = "******"

_NAMES = (
    r"passw(or)?d|passphrase|secret|credential|token"
    r"|(access|private|api|sign(ing|ature)?|encrypt(ion)?)[-_.]?key(?!path|file|store\b)"
)
_SECRET_KEY = re.compile(rf"(?i){_NAMES}|authenticationUser")
_SECRET_VALUE = re.compile(rf"(?i)({_NAMES})[\"']?\s*[:=]|://[^/\s:@]*:[^/\s@]+@")


def is_secret(key: str, value: str = "") -> bool:
    """Whether a setting is secret: by its key, or by a field name or password in its value."""
    return bool(_SECRET_KEY.search(key) or _SECRET_VALUE.search(value))


def mask_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Return ``properties`` with every non-empty secret replaced by ``MASK``."""
    return {
        key: MASK if value and is_secret(key, value) else value for key, value in properties.items()
    }
