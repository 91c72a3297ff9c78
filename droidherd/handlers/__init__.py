"""What flows cannot say: task types, or steps of flows, in Python. Registered by name."""
