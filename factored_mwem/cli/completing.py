"""Completing: what Tab adds to a command line. The script is printed; whoever wants it puts it in place."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from factored_mwem.errors import InputError

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
VARIABLE = "_FMWEM_COMPLETE"
"""Set by the script where a shell asks: then the command line answers, and runs nothing."""


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
    print(get_completion_script(prog_name="fmwem", complete_var=VARIABLE, shell=shell))


def answer_shells() -> None:
    """Make the parser answer a shell that asks. Loaded for that alone: other commands start no slower."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
