"""Emulators and hosts: presence, recovery, what can be known of them. Pure."""
