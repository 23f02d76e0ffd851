"""The verb of ``mqadmin store`` that sends: ``import``."""
