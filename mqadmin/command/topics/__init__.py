"""The verbs of ``mqadmin topic`` that change topics, one or many."""
