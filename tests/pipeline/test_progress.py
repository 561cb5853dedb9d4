"""The bar: on a terminal and in a notebook, nowhere else; a name is text, a failure ends nothing."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from factored_mwem import Progress, show_progress

ROUND = Progress(1, 4, ("a[/b]\x1b[2J",), 2, 8, 2, 16, 0.25)


def shown(console: Console) -> str:
    with show_progress(console) as report:
        report(ROUND)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_terminal_sees_the_round_and_no_control_characters_of_a_name() -> None:
    text = shown(Console(file=io.StringIO(), force_terminal=True, width=200, color_system=None))
    assert "round 1: measured a[/b]" in text and "25%" in text
    assert "\\x1b[2J" in text


def test_a_notebook_sees_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO(), force_jupyter=True)
    drawn: list[Any] = []
    for name in ("start", "update", "stop"):
        note = lambda self, *_, name=name, completed=None, **more: drawn.append(completed or name)  # noqa: E731
        monkeypatch.setattr(f"rich.progress.Progress.{name}", note)
    shown(console)
    assert drawn == ["start", 0.25, "stop"]


def test_a_pipe_sees_nothing() -> None:
    assert shown(Console(file=io.StringIO())) == ""


def test_a_display_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("closed")

    for name in ("start", "update", "stop"):
        monkeypatch.setattr(f"rich.progress.Progress.{name}", fail)
    shown(Console(file=io.StringIO(), force_terminal=True))
