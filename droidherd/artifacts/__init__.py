"""Files that tasks leave behind, kept by reference."""
