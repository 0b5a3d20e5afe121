"""`outgrow`: its subcommands, and how errors reach the user."""

from __future__ import annotations

import importlib
import io
import os
import sys

import click

from outgrow.errors import OutgrowError
from outgrow.version import __version__

__all__ = ["main"]

# Each command is a module of its own, imported when it is called: `outgrow --version` loads none of them.
_COMMANDS = {
    "check": "Judge solutions: what is broken, changed or missing.",
    "convert": "Rewrite puzzles in another format.",
    "data": "List, build and verify data sets.",
    "evaluate": "Board and pointwise accuracy of trained weights.",
    "export": "Write solved puzzles as CSV or JSON lines.",
    "generate": "Make puzzles with certified solutions.",
    "play": "Open a page to watch networks solve.",
    "plot": "Draw the curves of training runs, or results.",
    "show": "Draw puzzles in the terminal or as SVG.",
    "solve": "Solve puzzles.",
    "train": "Train a model from a recipe.",
    "weights": "List the trained weights that come with outgrow.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return importlib.import_module(f"outgrow.cli.{cmd_name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="outgrow")
def cli() -> None:
    """Train on small puzzles, solve bigger ones.

    \b
    Examples:
      outgrow solve puzzle.txt
      outgrow generate sudoku --size 16 --count 3 | outgrow solve -
      outgrow show puzzle.txt --svg puzzle.svg
      outgrow play
      outgrow train recipes/smoke.toml
    """


def main() -> None:
    """Runs the command; a user's mistake is one line on standard error and exit code 2."""
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(
                errors="backslashreplace"
            )  # a terminal without box drawings, a file's name without letters
    try:
        # Not cli.main(): it would turn a reader that went away into exit code 1, which means 'not solved'.
        with cli.make_context("outgrow", sys.argv[1:]) as context:
            code = cli.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        _stop("interrupted", 130)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        sys.exit(2)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context else ""
        _stop(f"{error.format_message()}{hint}", 2)
    except OutgrowError as error:
        _stop(str(error), 2)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): leave without a word, and keep Python from writing to it on exit.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _stop(f"{error.filename or 'file'}: {error.strerror or error}", 2)


def _stop(reason: str, code: int) -> None:
    line = " ".join(reason.split())
    print(f"outgrow: {line}", file=sys.stderr)
    sys.exit(code)
