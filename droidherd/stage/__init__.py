"""One attempt of one stage on one emulator."""
