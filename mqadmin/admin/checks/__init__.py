"""Measurements behind ``mqadmin check``: what is compared with thresholds, without judging it.

A module per check returns a list of :class:`~mqadmin.admin.checks.report.CheckRow`;
:mod:`~mqadmin.admin.checks.report` combines rows to a status.
"""
