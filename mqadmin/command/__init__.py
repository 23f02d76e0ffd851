"""The command line: one module per noun; each command parses, makes one library call and prints.

Duty
    Declare the commands and connect them to ``mqadmin.admin`` (running clusters),
    ``mqadmin.inspector`` (store files), ``mqadmin.repair``, ``mqadmin.pipeline`` and
    ``mqadmin.output`` (stdout and stderr).

Theory of operation
    Every command is declared once, as a plain function whose signature contains its options
    (``declare.py``). Two parsers use that declaration: the Typer layer (``typer_app.py``) with
    help, suggestions and usage errors, and the quick parser (``quick.py``), which accepts only
    correct command lines, takes a fraction of the import time, and declines all others to Typer.
    Completion (``completion.py``) and the man pages use it too. The module of a noun is imported
    when that noun is used; its imports are light.

    A run (``session.py``) resolves the settings, passes a session to the function and turns the
    result into an exit status (the table in ``failure.py``). A change always runs as: plan, show,
    ask, apply, read back.

Limits
    ``--timeout`` bounds a whole command; completion from a live cluster has a shorter deadline and
    returns no candidates instead of an error.

Sources
    The nouns are RocketMQ's; the Java tool's subcommands are named in each verb's docstring where
    the behaviour follows it.
"""
