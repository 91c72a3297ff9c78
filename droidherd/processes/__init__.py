"""Processes of this machine: pid files, and what a process uses."""
