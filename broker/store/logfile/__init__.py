"""Log files: memory-mapped files, file preparation, and the only access to the disk."""
