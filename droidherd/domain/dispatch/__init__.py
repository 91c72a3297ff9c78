"""Who may run where and who is next: the dispatcher of one pool. Pure."""
