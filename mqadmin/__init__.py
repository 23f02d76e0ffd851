"""The operations toolkit: online administration, offline store inspection, data pipeline."""
