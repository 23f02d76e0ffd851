"""The command line: one module per noun; each command parses, makes one library call and prints.

Duty
    Declare the commands and connect them to ``mqadmin.admin`` (running clusters),
    ``mqadmin.inspector`` (store files), ``mqadmin.repair``, ``mqadmin.pipeline`` and
    ``mqadmin.output`` (stdout and stderr).

Theory of operation
    Every command is declared once, as a plain function whose signature contains its options
    (``framework.declare``). Two parsers use that declaration: the Typer layer (``typer_app``) with
    help, suggestions and usage errors, and the quick parser (``quick``), which accepts only
    correct command lines, takes a fraction of the import time, and declines all others to Typer.
    Completion and the man pages use it too; all of these are in ``framework``. The module of a
    noun is imported when that noun is used; its imports are light.

    A run (``execution.session``) resolves the settings, passes a session to the function and turns
    the result into an exit status (the table in ``execution.failure``). A change always runs as:
    plan, show, ask, apply, read back.

Limits
    ``--timeout`` bounds a whole command; completion from a live cluster has a shorter deadline and
    returns no candidates instead of an error.

Sources
    The nouns are RocketMQ's; the Java tool's subcommands are named in each verb's docstring where
    the behaviour follows it.
"""
