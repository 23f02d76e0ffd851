"""Tables kept in configuration files: topics, groups, consumer offsets, and their writing."""
