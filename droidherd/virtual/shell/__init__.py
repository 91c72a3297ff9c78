"""A small POSIX-like shell: what clients of ADB and droidherd itself send, and nothing of the host underneath."""
