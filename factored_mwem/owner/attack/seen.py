"""Scores that an attack has seen so far, NOT PRIVATE: from its file a stopped attack goes on."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from factored_mwem.errors import InputError
from factored_mwem.files.files import read_text
from factored_mwem.owner.attack.result import Effort
from factored_mwem.pipeline.linked_request import LinkedRequest
from factored_mwem.request.request import Request
from factored_mwem.tables.inputs.source import Private

MOST_BYTES = 2**28
"""Of a file of releases."""


@dataclass(slots=True, eq=False, repr=False)
class SeenScores(Private):
    """What was seen so far, one JSON line a release, after a first that says of which attack; in `path`, if
    it is kept.
    """

    path: Path | None
    lines: list[dict[str, Any]]
    head: dict[str, Any] | None = None
    """The first line, until there is another: an attack that is refused leaves no file."""

    @classmethod
    def open(
        cls, path: Path | None, request: Request | LinkedRequest, effort: Effort, seed: int
    ) -> SeenScores:
        """Raises InputError if the file holds another attack."""
        facts = [request.settings, request.policy.model_dump(mode="json"), effort.people, effort.targets]
        facts += [effort.canaries, effort.guessed, request.fingerprint(b"attack").hex()]
        of = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        head = {"NOT PRIVATE": "scores of single people; do not publish", "attack": of, "seed": seed}
        seen = cls(path, [])
        if path is not None and path.exists():
            seen.lines = _whole_lines(read_text(path, "file of releases", MOST_BYTES))
            if seen.lines and seen.lines[0].get("attack") != of:
                raise InputError(f"{path} holds another attack; name another file with -o, or --overwrite")
            with _opened(path, os.O_TRUNC) as file:
                file.writelines(f"{json.dumps(line)}\n" for line in seen.lines)
        seen.head = None if seen.lines else head
        return seen

    def add(self, line: dict[str, Any]) -> None:
        if (head := self.head) is not None:
            self.head = None
            self.add(head)
        self.lines.append(line)
        if self.path is not None:
            with _opened(self.path, os.O_APPEND) as file:
                file.write(f"{json.dumps(line)}\n")

    def end(self, facts: dict[str, Any]) -> None:
        """Add the result, where the last line is not it."""
        if self.lines[-1] != {"result": facts}:
            self.add({"result": facts})

    def about(self, name: str) -> Any:
        """What the first line with this name says, None if there is none."""
        lines = self.lines or ([self.head] if self.head is not None else [])
        return next((line[name] for line in lines if name in line), None)

    def of_world(self, world: int) -> list[list[list[float]]]:
        """The scores seen in releases of a world."""
        return [line["scores"] for line in self.lines if line.get("world") == world]


def _opened(path: Path, flag: int) -> Any:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600), "w", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def _whole_lines(text: str) -> list[dict[str, Any]]:
    """The lines up to one that was cut off."""
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found
