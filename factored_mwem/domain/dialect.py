"""Dialect: how the cells of a text table are written, as somebody says: on the command line, in Python, or in
the domain file, by Frictionless's names where it has them.
"""

from __future__ import annotations

import codecs
import re
import zoneinfo
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from factored_mwem.errors import InputError

SINGLE_BYTE = (
    "latin-1", "ascii", *(f"iso8859-{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
    *(f"cp125{n}" for n in range(9)), "cp437", "cp737", "cp775", "cp850", "cp852", "cp855", "cp857", "cp858",
    "cp860", "cp861", "cp862", "cp863", "cp864", "cp865", "cp866", "cp869", "cp874", "koi8-r", "koi8-u",
    "mac-roman",
)  # fmt: skip
MULTI_BYTE = ("cp932", "shift_jis", "euc_jp", "gbk", "gb2312", "gb18030", "big5", "cp950", "euc_kr", "cp949")
WIDE = ("utf-16", "utf-16-le", "utf-16-be")
ENCODINGS = {
    codecs.lookup(name).name: name for name in ("utf-8", "utf-8-sig", *SINGLE_BYTE, *MULTI_BYTE, *WIDE)
}
"""Those in which no record's bytes decide how the next one is read: a line feed ends whatever is before it.
Not so with iso-2022, utf-7 or hz, where one cell could switch the rest of the file to another alphabet.
"""


def _split(given: Any) -> Any:
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else given


Names = Annotated[tuple[str, ...] | None, BeforeValidator(_split)]
"""Column names: a sequence, or one text with commas between them."""
DIRECTIVES = "YymdHIpMSfzbB"
"""Of date formats: those that mean the same everywhere, whatever the machine's language."""


def _directives(pattern: str) -> list[str]:
    return re.findall(r"%(.?)", pattern.replace("%%", ""))


def is_whole(pattern: str) -> bool:
    """Whether a date format consists of DIRECTIVES and names a day, and hours in one way at most."""
    used = _directives(pattern)
    day = len(set("Yy") & set(used)) == 1 == len(set("mbB") & set(used)) and "d" in used
    hours = ("I" in used) == ("p" in used) and not {"I", "H"} <= set(used)
    return day and hours and len(set(used)) == len(used) and set(used) <= set(DIRECTIVES)


class Dialect(BaseModel):
    """What is said of a text table; None if nothing is.

    >>> Dialect.of(delimiter="tab", decimalChar=",").delimiter
    '\\t'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    delimiter: str | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] | None = Field(default=None, alias="decimalChar")
    date_format: str | None = Field(default=None, alias="dateFormat")
    time_zone: str | None = Field(default=None, alias="timeZone")
    missing: Names = None
    """Cells that stand for nothing, in columns of text too."""
    header: Literal["first", "none"] | None = None
    """Whether the first line names the columns. None: it does, but must not look like a record."""
    names: Names = None
    """Of the columns of a file without a header."""

    @field_validator("delimiter")
    @classmethod
    def _one_sign(cls, given: str | None) -> str | None:
        sign = {"tab": "\t", "\\t": "\t"}.get(given or "", given)
        if sign is None:
            return sign
        alone = sign[:1] if sign[1:] == " " else sign
        if len(alone) != 1 or not alone.isascii() or alone.isalnum() or alone in '"\r\n\0':
            raise ValueError("must be one ASCII sign such as ; or |, perhaps with a blank, or the word tab")
        return sign

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, given: str | None) -> str | None:
        try:
            codec = None if given is None else codecs.lookup(given).name
        except (LookupError, ValueError):
            codec = ""
        if codec is not None and codec not in ENCODINGS:
            raise ValueError(
                "is no encoding that is read here; say for example utf-16, latin-1, cp1252 or cp932, or "
                "convert the file with iconv"
            )
        return None if codec is None else ENCODINGS[codec]

    @field_validator("date_format")
    @classmethod
    def _fixed_meaning(cls, given: str | None) -> str | None:
        if given is None:
            return given
        if unknown := [d for d in _directives(given) if not d or d not in DIRECTIVES]:
            known = ", ".join(f"%{d}" for d in DIRECTIVES)
            raise ValueError(f"%{unknown[0]} is not read; known are {known}")
        if not is_whole(given):
            day = "must hold a year, a month and a day, each once, such as %d/%m/%Y"
            raise ValueError(f"{day}; hours are %H, or %I with %p")
        return given

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, given: str | None) -> str | None:
        try:
            if given is not None:
                zoneinfo.ZoneInfo(given)
        except (ValueError, KeyError, OSError):
            how = "say for example UTC or Europe/Berlin"
            raise ValueError(f"is no time zone that is known here; {how}") from None
        return given

    @property
    def short_years(self) -> bool:
        """Whether dates are written with years of two digits."""
        return "y" in _directives(self.date_format or "")

    @model_validator(mode="after")
    def _named_once(self) -> Dialect:
        if self.header == "none" and not self.names:
            raise ValueError("header 'none' needs the names of the columns; say --names a,b,c")
        if self.names is not None and self.header != "none":
            raise ValueError("names are for a file without a header line; say --header none, too")
        if self.names is not None and ("" in self.names or len(set(self.names)) < len(self.names)):
            raise ValueError("names must be different from each other, and none of them empty")
        return self

    @classmethod
    def of(cls, **given: Any) -> Dialect:
        """Raise InputError in one line if a value does not fit."""
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
        name = first["loc"][0] if first["loc"] else "dialect"
        raise InputError(f"{name}: {first['msg'].removeprefix('Value error, ')}")

    @classmethod
    def from_file(cls, data: dict[str, Any]) -> Dialect | None:
        """What a domain file says, under `dialect` and `encoding`; None if it says nothing."""
        dialect, encoding = data.get("dialect"), data.get("encoding")
        if dialect is None and encoding is None:
            return None
        dialect = {} if dialect is None else dialect
        if not isinstance(dialect, dict) or "encoding" in dialect:
            raise InputError('"dialect" must be an object such as {"delimiter": ";"}, the encoding beside it')
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = sorted(set(dialect) - known)
        if unknown:
            listed = ", ".join(sorted(known))
            raise InputError(f"unknown key {unknown[0]!r} in the dialect; known are {listed}")
        return cls.of(**dialect, **({} if encoding is None else {"encoding": encoding}))

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The keys of a domain file by which it is said, as JSON Schema."""
        texts: dict[str, Any] = {f.alias or name: {"type": "string"} for name, f in cls.model_fields.items()}
        texts |= {name: {"type": "array", "items": {"type": "string"}} for name in ("names", "missing")}
        encoding = texts.pop("encoding")
        return {"dialect": {"type": "object", "properties": texts}, "encoding": encoding}

    def to_dict(self) -> dict[str, Any]:
        """The keys of a domain file that say it."""
        facts = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        encoding = facts.pop("encoding", None)
        return ({"dialect": facts} if facts else {}) | ({"encoding": encoding} if encoding else {})

    def beside(self, other: Dialect | None) -> Dialect:
        """Both combined; raises InputError if the domain file, `other`, contradicts this one."""
        if other is None:
            return self
        fields = {}
        for name in type(self).model_fields:
            ours, theirs = getattr(self, name), getattr(other, name)
            if None not in (ours, theirs) and ours != theirs:
                flag = f"--{name.replace('_', '-')} {ours!r}"
                raise InputError(f"{flag}, but the domain file says {theirs!r}; correct one of them")
            fields[name] = theirs if ours is None else ours
        return Dialect(**fields)


SHORT_YEARS = "years of two digits are read as 1969 to 2068"
"""Warns of what a date format with %y does, as strptime does: a birth of 1952 becomes one of 2052."""
PLAIN = Dialect()
"""Nothing said."""
OUR_OWN = Dialect(header="first")
"""Of released files: their first line names the columns, whatever these are called."""
