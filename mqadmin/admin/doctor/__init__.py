"""Examinations of clusters and consumer groups: findings with severity, cause and fix.

A module per subject returns :class:`~mqadmin.admin.doctor.finding.Finding` values. Facts are read
once, by the modules of ``mqadmin.admin``; rules that compare them are pure functions.
"""
