"""When subscriptions are due and what was missed. Pure."""
