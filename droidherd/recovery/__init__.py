"""What a host does for an emulator in trouble."""
