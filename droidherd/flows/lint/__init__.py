"""Judges flows before anything runs them."""
