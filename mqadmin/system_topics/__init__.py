"""Messages of system topics as rows: timers, delay levels, check points; pure, no I/O, no clock.

Shared by the online and the offline library, as :mod:`mqadmin.message_row` is.
"""
