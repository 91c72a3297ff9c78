"""What droidherd itself fetches over HTTP."""
