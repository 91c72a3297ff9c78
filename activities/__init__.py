"""Thin: unpack, call one operation of the core, translate the error."""
