"""The `droidherd` command: starts everything on one machine, and speaks to what runs."""
