"""Configuration files: Java properties, typed settings and the masking of secrets."""
