"""What a task does, as data: the model, its loader and linter, the catalogue, and the interpreter."""
