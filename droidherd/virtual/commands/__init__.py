"""What can be run on a virtual emulator, by noun."""
