"""How the product opens files that others name."""
