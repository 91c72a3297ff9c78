"""The life of a task and its side of the protocol. Pure."""
