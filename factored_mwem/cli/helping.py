"""Help: the guide, and what Tab adds to a command line, as a script that is printed; whoever wants it puts it
in place.
"""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from factored_mwem.cli.panels import COMPLETING
from factored_mwem.errors import InputError

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar=f"[{'|'.join(SHELLS)}]", help="Your shell.", autocompletion=lambda: list(SHELLS)
        ),
    ],
) -> None:
    """Print a script that completes commands and options. Writes nothing itself.

    bash: fmwem completion bash > ~/.local/share/bash-completion/completions/fmwem

    zsh: fmwem completion zsh > a file _fmwem in a folder of $fpath

    fish: fmwem completion fish > ~/.config/fish/completions/fmwem.fish
    """
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise InputError(f"no script for {shell!r}; there is one for {', '.join(SHELLS)}")
    print(get_completion_script(prog_name="fmwem", complete_var=COMPLETING, shell=shell))


def answer_shells() -> None:
    """Make the parser answer a shell that asks. Loaded for that alone: other commands start no slower."""
    from typer._completion_classes import completion_init

    completion_init()


def _topics() -> list[str]:
    from factored_mwem.documents.guide import TOPICS

    return list(TOPICS)


def guide(
    topic: Annotated[
        Optional[str], typer.Argument(help="A page; without it, the list of pages.", autocompletion=_topics)
    ] = None,
) -> None:
    """Read the guide: what the README leaves out."""
    from rich.console import Console
    from rich.markdown import Markdown

    from factored_mwem.documents.guide import TOPICS, page

    if topic is None:
        width = max(map(len, TOPICS))
        print("\n".join(f"{name:{width}}  {what}" for name, what in TOPICS.items()))
    elif sys.stdout.isatty():
        Console().print(Markdown(page(topic)))
    else:
        print(page(topic), end="")
