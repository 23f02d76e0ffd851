"""Shared options keep one name for one meaning in every command."""

from collections import defaultdict

import pytest

from mqadmin.command.framework.declare import Option
from mqadmin.command.framework.nouns import NOUNS, load_noun

PARAMETERS = [
    (verb.path, parameter)
    for name in NOUNS
    for verb in load_noun(name).verbs.values()
    for parameter in verb.parameters
    if isinstance(parameter.marker, Option)
]


@pytest.mark.parametrize("alias", ["--output", "--begin", "--end", "--max"])
def test_a_secondary_name_is_never_the_first(alias: str) -> None:
    assert not [path for path, one in PARAMETERS if one.marker.names[0] == alias]


def test_files_and_directories_are_written_to_out() -> None:
    written = {
        path
        for path, one in PARAMETERS
        # --outfile of checks is for samples, in addition to the output
        if "--out" in one.marker.names and not path.startswith("check ")
    }
    assert written == {
        "store repair",
        "store recover",
        "store export",
        "store copy",
        "store trim",
        "pipeline run",
        "offset export",
        "dlq export",
        "metadata export",
    }


def test_an_option_has_one_value_type_everywhere() -> None:
    kinds: dict[str, set[type]] = defaultdict(set)
    for _, one in PARAMETERS:
        kinds[one.marker.names[0]].add(one.kind)
    shared = ("--topic", "--queue", "--broker", "--since", "--until", "--limit", "--cluster")
    assert all(len(kinds[name]) == 1 for name in shared), {n: kinds[n] for n in shared}
