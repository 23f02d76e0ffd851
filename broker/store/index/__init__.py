"""Message index: IndexFiles, and IndexService, which adds entries and queries them by key."""
