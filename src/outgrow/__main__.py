"""`python -m outgrow`, and `torchrun -m outgrow train`: the command."""

from outgrow.cli.main import main

if __name__ == "__main__":
    main()
