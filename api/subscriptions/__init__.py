"""Subscriptions over HTTP."""
