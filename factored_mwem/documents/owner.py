"""Owner: the facts for catalogues that no manifest holds, answered by a person in a small TOML file."""

from __future__ import annotations

import datetime
import re
import textwrap
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from factored_mwem.errors import InputError
from factored_mwem.files.files import complaint, read_text

MAX_TEXT = 20_000
"""Most characters of an answer."""


def _https(text: str) -> str:
    if text and not re.fullmatch(r"https?://[^\s<>\"\\^`{|}]+", text):
        raise ValueError("is no address that begins with https:// or http://")
    return text


Text = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, max_length=MAX_TEXT)]
Url = Annotated[Text, AfterValidator(_https)]
Names = Annotated[list[Annotated[Text, StringConstraints(min_length=1)]], Field(max_length=1000)]
Sector = Literal["Technology", "Healthcare", "Education", "Government", "Energy", "Finance", ""]
"""The sectors that the registry of deployments lists."""
OPTIONAL = ("sector", "sensitive", "data_url", "published", "version", "sources")


def _unanswered(question: str, default: Any = "") -> Any:
    """A question, not yet answered."""
    return Field(default, description=question)


class Owner(BaseModel):
    """The answers. The description of a field is its question. Questions in `OPTIONAL` may stay empty, and
    are then left out of the records.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text = _unanswered("Name of the data product, as people will look for it.")
    description: Text = _unanswered("What its rows describe, in a sentence or two.")
    curators: Names = _unanswered('Who publishes it: ["Office of Statistics"].', [])
    intended_use: Text = _unanswered("What it is for; also what it must not be used for.")
    region: Text = _unanswered("Which region it describes, or whose laws apply to it.")
    contact: Text = _unanswered("Whom to ask about it: an e-mail address, or an https:// address.")
    license: Text = _unanswered("Its licence: an SPDX identifier (CC-BY-4.0) or an https:// address.")
    url: Url = _unanswered("Its page on the web.")
    data_collection: Text = _unanswered("How the private table was collected, when, and of whom.")
    preparation: Text = _unanswered(
        "What was done to the private table before fmwem read it, and whether anything (columns, "
        "settings, epsilon) was chosen by looking at it or by trying releases, and how that was paid for."
    )
    justification: Text = _unanswered("Why this epsilon, delta and privacy unit, and who decided it.")
    actors: Text = _unanswered(
        "Who sees the private table, who sees the release, and what each is trusted with."
    )
    releases: Literal["one", "many", ""] = _unanswered(
        'Is it published once ("one"), or again and again ("many")?'
    )
    releases_details: Text = _unanswered(
        "Whether the same people's data will be used again, and how that is accounted for."
    )
    source: Literal["static", "dynamic", ""] = _unanswered(
        'Do new rows come into the private table over time: "static" (no) or "dynamic"?'
    )
    record_authors: Names = _unanswered("Who filled in this file; the registry names them.", [])
    sector: Sector = _unanswered("Technology, Healthcare, Education, Government, Energy or Finance.")
    sensitive: Names = _unanswered(
        'Which sensitive attributes of people it is about: ["health", "income"].', []
    )
    data_url: Url = _unanswered("Where its files can be fetched: the https:// address of their folder.")
    published: datetime.date | Literal[""] = _unanswered(
        "Day of publication, as 2026-11-22 without quotes; else the day of the release."
    )
    version: Text = _unanswered("Its version, such as 1.0.0.")
    sources: Text = _unanswered("Papers or pages about this release.")

    @classmethod
    def load(cls, path: Path) -> Owner:
        """The answers in a file. Raises InputError if it is no such file, or what must be answered
        is not.
        """
        try:
            data = tomllib.loads(read_text(path, "owner's file"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"the owner's file {path} is not TOML ({_line(error)})") from None
        try:
            owner = cls.model_validate(data)
        except ValidationError as error:
            problem = complaint(error)
        else:
            missing = owner.unanswered
            if not missing:
                return owner
            problem = f"not answered yet: {', '.join(missing)}"
        # outside the block: the validator's error quotes its whole input
        raise InputError(f"the owner's file {path}: {problem}")

    @property
    def unanswered(self) -> list[str]:
        """The questions that must be answered, and are not."""
        return [name for name in required() if not getattr(self, name)]


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]


def required() -> list[str]:
    """The names of the questions that must be answered."""
    return [name for name in Owner.model_fields if name not in OPTIONAL]


def draft() -> str:
    """An owner's file with every question and no answer."""
    lines = [
        "# What catalogues ask and no manifest knows. Nothing is made up where an answer is missing:",
        "# `fmwem card` names the question and stops. All that you write here is published.",
        "# Markdown is fine; a text of several lines stands between three quotes.",
    ]
    for name in required():
        lines += _question(name)
    lines += ["", "# From here on an answer may stay empty."]
    for name in OPTIONAL:
        lines += _question(name)
    return "\n".join(lines) + "\n"


def _question(name: str) -> list[str]:
    field = Owner.model_fields[name]
    question = textwrap.wrap(field.description or "", 108)
    return [
        "",
        *(f"# {line}" for line in question),
        f"{name} = {'[]' if field.default == [] else chr(34) * 2}",
    ]
