"""What people need to test their own flows, handlers and workflows."""
