"""Declarations of live commands are light; their run is loaded when it is used."""

import subprocess
import sys

from mqadmin.command.framework.nouns import live_run


def test_help_and_completion_of_a_noun_do_not_load_the_run() -> None:
    code = (
        "import sys; from mqadmin.command.framework.nouns import load_noun;"
        "load_noun('topic'); print(sorted({'rich', 'mqadmin.command.live.run'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_run_has_a_function_per_verb() -> None:
    run = live_run()
    assert all(map(callable, (run.cluster_top, run.topic_stats, run.topic_top)))
