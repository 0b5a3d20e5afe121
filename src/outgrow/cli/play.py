"""`outgrow play`."""

from __future__ import annotations

import sys
import webbrowser

import click


@click.command("play")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Where to listen; 0 for any free port  [8765, or a free one]"
)
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page in a browser.")
def command(port: int | None, browser: bool) -> None:
    """Open a page where networks solve puzzles step by step: watch them, compare them, and puzzle yourself.

    The page is on this machine alone (127.0.0.1), takes nothing from elsewhere, and writes nothing to disk. Ctrl-C ends it.

    \b
    Examples:
      outgrow play
      outgrow play --port 9000 --no-browser
      ssh -L 8765:127.0.0.1:8765 machine outgrow play --no-browser
    """
    from outgrow.playground import serve

    def ready(address: str) -> None:
        print(f"The playground is at {address}  (Ctrl-C ends it)", flush=True)
        if browser:
            webbrowser.open(address)

    print("Opening the networks ...", file=sys.stderr, flush=True)
    try:
        serve(port, ready=ready)
    except KeyboardInterrupt:
        print("", file=sys.stderr)
