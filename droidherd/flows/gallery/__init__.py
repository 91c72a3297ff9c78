"""Flows that come with droidherd, for the app that every virtual emulator carries."""
