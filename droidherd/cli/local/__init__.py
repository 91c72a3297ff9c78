"""The instance on this machine: its processes, ports, files."""
