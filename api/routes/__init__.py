"""Routes: one noun per file, each a few lines long."""
