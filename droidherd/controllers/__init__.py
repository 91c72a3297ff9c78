"""Who starts and stops emulators: our own virtual ones, the Android SDK, MuMu, LDPlayer, or a command of yours."""
