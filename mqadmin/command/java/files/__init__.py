"""Commands with a Java name that read or write files."""
