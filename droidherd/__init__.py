"""droidherd: durable task execution for fleets of Android emulators, on Temporal."""

__version__ = "0.2.0"
