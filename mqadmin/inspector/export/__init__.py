"""Messages of a store as pieces of files: lines of text, Arrow record batches."""
