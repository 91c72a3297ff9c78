"""Emulators over HTTP."""
