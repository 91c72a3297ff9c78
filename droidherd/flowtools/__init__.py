"""Where people make flows: try them, record them, replay them, draw them. Nothing durable happens here."""
