"""Cleanups over HTTP."""
