"""Runs the stages of a plan."""
