"""One module per family of request codes; ``table.py`` says which code lives where.

A processor module exports ``HANDLERS``: request code → function of (context, connection,
request). Hot modules export ``make_handlers(context)`` instead and bind what they need once.
"""
