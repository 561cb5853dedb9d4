"""Dialect: how the cells of a text table are written, as somebody says: on the command line, in Python, or in
the domain file, by Frictionless's names where it has them.
"""

from __future__ import annotations

import codecs
import re
import zoneinfo
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

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
DIRECTIVES = "YymdHMSfzb"
"""Of date formats: those that mean the same everywhere, whatever the machine's language."""


class Dialect(BaseModel):
    """What is said of a text table; None where nothing is.

    >>> Dialect.of(delimiter="tab", decimalChar=",").delimiter
    '\\t'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    delimiter: str | None = None
    encoding: str | None = None
    decimal: Literal[".", ","] | None = Field(default=None, alias="decimalChar")
    date_format: str | None = Field(default=None, alias="dateFormat")
    time_zone: str | None = Field(default=None, alias="timeZone")

    @field_validator("delimiter")
    @classmethod
    def _one_sign(cls, given: str | None) -> str | None:
        sign = {"tab": "\t", "\\t": "\t"}.get(given or "", given)
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\r\n\0'):
            raise ValueError("must be one ASCII sign such as ; or |, or the word tab")
        return sign

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, given: str | None) -> str | None:
        try:
            found = None if given is None else codecs.lookup(given).name
        except (LookupError, ValueError):
            found = ""
        if found is not None and found not in ENCODINGS:
            raise ValueError(
                "is no encoding that is read here; say for example utf-16, latin-1, cp1252 or cp932, or "
                "convert the file with iconv"
            )
        return None if found is None else ENCODINGS[found]

    @field_validator("date_format")
    @classmethod
    def _fixed_meaning(cls, given: str | None) -> str | None:
        if given is None:
            return given
        used = re.findall(r"%(.?)", given.replace("%%", ""))
        unknown = [d for d in used if not d or d not in DIRECTIVES]
        if unknown:
            known = ", ".join(f"%{d}" for d in DIRECTIVES)
            raise ValueError(f"%{unknown[0]} is not read; known are {known}")
        year = "Y" in used or "y" in used
        if (
            not ((year and "m" in used) or (year and "b" in used))
            or "d" not in used
            or len(set(used)) < len(used)
        ):
            raise ValueError("must hold a year, a month and a day, each once, such as %d/%m/%Y")
        return given

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, given: str | None) -> str | None:
        try:
            if given is not None:
                zoneinfo.ZoneInfo(given)
        except (ValueError, KeyError, OSError):
            raise ValueError(
                "is no time zone that is known here; say for example UTC or Europe/Berlin"
            ) from None
        return given

    @classmethod
    def of(cls, **given: Any) -> Dialect:
        """InputError in one line where a value does not fit."""
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
        name = first["loc"][0] if first["loc"] else "dialect"
        raise InputError(f"{name}: {first['msg'].removeprefix('Value error, ')}")

    @classmethod
    def from_file(cls, data: dict[str, Any]) -> Dialect | None:
        """What a domain file says, under `dialect` and `encoding`; None where it says nothing."""
        said, encoding = data.get("dialect"), data.get("encoding")
        if said is None and encoding is None:
            return None
        said = {} if said is None else said
        if not isinstance(said, dict) or "encoding" in said:
            raise InputError('"dialect" must be an object such as {"delimiter": ";"}, the encoding beside it')
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = sorted(set(said) - known)
        if unknown:
            raise InputError(
                f"unknown key {unknown[0]!r} in the dialect; known are {', '.join(sorted(known))}"
            )
        return cls.of(**said, **({} if encoding is None else {"encoding": encoding}))

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The keys of a domain file by which it is said, as JSON Schema."""
        texts = {field.alias or name: {"type": "string"} for name, field in cls.model_fields.items()}
        encoding = texts.pop("encoding")
        return {"dialect": {"type": "object", "properties": texts}, "encoding": encoding}

    def to_dict(self) -> dict[str, Any]:
        """The keys of a domain file that say it."""
        said = self.model_dump(by_alias=True, exclude_none=True)
        encoding = said.pop("encoding", None)
        return ({"dialect": said} if said else {}) | ({"encoding": encoding} if encoding else {})

    def beside(self, other: Dialect | None) -> Dialect:
        """Both together; InputError where the domain file, `other`, says something else."""
        if other is None:
            return self
        found = {}
        for name in type(self).model_fields:
            ours, theirs = getattr(self, name), getattr(other, name)
            if None not in (ours, theirs) and ours != theirs:
                flag = f"--{name.replace('_', '-')} {ours!r}"
                raise InputError(f"{flag}, but the domain file says {theirs!r}; correct one of them")
            found[name] = theirs if ours is None else ours
        return Dialect(**found)


PLAIN = Dialect()
"""Nothing said."""
