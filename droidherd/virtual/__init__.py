"""The virtual emulator: a process that speaks the ADB device protocol, for demos, tests and rehearsals."""
