"""From folders to plans."""
