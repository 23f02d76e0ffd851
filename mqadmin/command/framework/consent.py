"""``--yes CONTEXT``: the confirmation of a change by the name of a protected context.

``--yes`` is a flag, so ``--yes prod`` is read as ``--yes-context prod`` only if ``prod`` is the
name of a protected or read-only context; any other word after ``--yes`` is an argument.
"""

from collections.abc import Mapping, Sequence

from mqadmin.settings import GUARD_WORDS, config_path, load_contexts

_NAMES = ("--yes", "-y")


def consent_words(words: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the command line with ``--yes CONTEXT`` and ``--yes=CONTEXT`` as ``--yes-context``."""
    if not any(word in _NAMES or word.startswith("--yes=") for word in words):
        return list(words)
    contexts = load_contexts(config_path(environ)).named
    guarded = {
        name for name, kept in contexts.items() if any(kept.get(word) for word in GUARD_WORDS)
    }
    found: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*found, word, *rest]
        if word.startswith("--yes="):
            found += ["--yes-context", word.partition("=")[2]]
        elif word in _NAMES and rest and rest[0] in guarded:
            found += ["--yes-context", rest.pop(0)]
        else:
            found.append(word)
    return found
