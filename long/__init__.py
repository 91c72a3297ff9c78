"""The full figures: `make long`. Each part takes at most 15 minutes, all together at most 90."""
