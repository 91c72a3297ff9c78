"""The adb server and one emulator behind it: run, parse, model. Knows nobody but the domain."""
