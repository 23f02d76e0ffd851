"""The commands: one module per noun; parse, one library call, one print.

Duty
    Say what a user can type and connect it to ``mqadmin.admin`` (running clusters),
    ``mqadmin.inspector`` (store files) and ``mqadmin.output`` (the screen).

Theory of operation
    Every command is declared once, as a plain function whose signature carries its options
    (``declare.py``). Two readers parse a command line from that declaration: the Typer face
    (``face.py``), which knows help, suggestions and usage errors, and the quick parser
    (``quick.py``), which takes plain correct input only, costs a fraction to import, and declines
    everything else to the face. Completion (``completion.py``) and the man page read it too.
    A noun's module is imported when that noun is used; it imports nothing heavy at its top.

    A run (``session.py``) resolves the settings, gives the function what it needs and turns the
    outcome into an exit status (``failure.py`` has the one table). A change is always: plan, show,
    ask, apply, read back.

Limits
    ``--timeout`` bounds a whole command; completion from a live cluster has its own short
    deadline and answers nothing rather than an error.

Sources
    The nouns are RocketMQ's; the Java tool's subcommands are named in each verb's docstring where
    the behaviour follows it.
"""
