"""`python -m outgrow`."""

from outgrow.cli.main import main

if __name__ == "__main__":
    main()
