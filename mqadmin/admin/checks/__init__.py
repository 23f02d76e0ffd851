"""Measurements behind ``mqadmin check``: values to be compared with thresholds.

A module per check returns a list of :class:`~mqadmin.admin.checks.report.CheckRow`;
:mod:`~mqadmin.admin.checks.report` combines rows to a status.
"""
