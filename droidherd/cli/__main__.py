"""`python -m droidherd.cli`."""

from droidherd.cli.main import main

if __name__ == "__main__":
    main()
