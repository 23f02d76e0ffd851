"""One module per family of request codes; ``table.py`` maps each code to its module.

A processor module exports ``HANDLERS``: request code → function of (context, connection,
request). ``send`` and ``pull`` export ``make_handlers`` instead and bind their state once.
"""
