"""Attribute: a column and its finite set of codes, which a person declared or the budget paid for.

Codes 0..size-1 number the listed values or the bins in order; the last code of a nullable attribute stands
for null. The fields are those of a Frictionless Table Schema (v2), and more: `bins` or `edges` cut numbers
and moments, `specialValues` have codes of their own beside them, `other` takes what is unlisted or
unreadable.
"""

from __future__ import annotations

import datetime
import itertools
import math
from functools import cached_property
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from factored_mwem.files.files import without_example

DEFAULT_BINS = 32
"""Bins of a number, date or timestamp whose domain names none."""
ONE_BIN_EACH = 128
"""Integer and date attributes with at most this many values get a bin for each."""
WIDEST = 2**62 - 2**10
"""Integers of a domain lie within 2^62, and learnt and drafted bounds within this."""
MAX_NUMBER = 1e300
"""Numbers lie between this and its negative, so that the width of any bin is a finite float."""

_WITHOUT_BOUNDS = ("unique", "pattern", "minLength", "maxLength")
_WITHIN = {"integer": " between -2^62 and 2^62", "number": " between -1e300 and 1e300"}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "boolean": (bool,), "integer": (int,), "number": (int, float), "date": (str,),
    "datetime": (str,),
}  # fmt: skip
"""Of categories, by an attribute's type."""
_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_UTC = datetime.datetime(1970, 1, 1)
Scalar = bool | int | float | str
MARKERS = (
    "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "#N/A N/A", "NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND",
    "1.#QNAN", "-1.#QNAN", "null", "NULL", "None",
)  # fmt: skip
"""What programs write for a missing value, as pandas' own reader takes it (`na_values` of its `read_csv`)."""
ZONE = r"UTC|[+-](?:0[0-9]|1[0-4]):[0-5][0-9]"
"""What moments may be of: UTC, or a fixed offset from it."""


class Constraints(BaseModel):
    """The Frictionless constraints that say something about a domain."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    required: bool = False
    minimum: int | float | str | None = None
    maximum: int | float | str | None = None
    enum: tuple[Scalar, ...] | None = None


OTHER = "other"
"""What a value of a column of text becomes that is not listed, where many are."""
ROWS_OF_PERSON = "rows_of_person"
"""The attribute that says how many rows a row's person has, where each person weighs one."""
ROWS_OF = "rows of "
"""What begins the name of an attribute that says how many rows of another table hang on a row."""


class Attribute(BaseModel):
    """A column and its finite set of codes.

    Either `categories` lists the values, or the attribute is a number, date or timestamp between
    `constraints.minimum` and `constraints.maximum`, cut into `bins` of equal width or at `edges`; beside them
    `special_values` have codes of their own, wherever they lie. A text among those, such as "N", makes the
    column come back as text. Whatever is unlisted or unreadable counts as `other`; `decimals` and
    `resolution` say how finely numbers and timestamps are written, `multiple_of` how integers are rounded;
    numbers that come back as text have `zeros` digits or more behind the point; `format` says how a date or
    number is written, such as `%d.%m.%Y`, `$#,##0`, `0%` or, for minutes since midnight, `%H:%M`; in
    `time_zone` timestamps of a column of text come back. A bin that holds some of `bin_values` stands for
    those alone, as often as `bin_weights` say.

    >>> from factored_mwem import Attribute
    >>> Attribute(name="sex", categories=("F", "M"), constraints={"required": True}).size
    2
    >>> age = Attribute(name="age", type="integer", constraints={"minimum": 0, "maximum": 99}, bins=10)
    >>> age.size, age.null_code  # ten bins, and a code for what is missing
    (11, 10)
    >>> gains = Attribute(name="gains", type="integer", edges=(1, 1000, 99_999), specialValues=(0, 99_999))
    >>> gains.size  # two special values, two bins, and null
    5
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, json_schema_extra=without_example
    )

    name: str = Field(min_length=1)
    type: Literal["string", "boolean", "integer", "number", "date", "datetime"] = "string"
    format: str = "default"
    categories: tuple[Scalar, ...] | None = None
    categories_ordered: bool = Field(default=False, alias="categoriesOrdered")
    other: Scalar | None = None
    constraints: Constraints = Constraints()
    bins: int | None = Field(default=None, ge=1, le=10_000_000)
    edges: tuple[int | float | str, ...] | None = Field(default=None, min_length=2)
    special_values: tuple[Scalar, ...] | None = Field(default=None, alias="specialValues")
    bin_values: tuple[Scalar, ...] | None = Field(default=None, alias="binValues")
    bin_weights: tuple[int, ...] | None = Field(default=None, alias="binWeights")
    decimals: int | None = Field(default=None, ge=0, le=15)
    zeros: int | None = Field(default=None, ge=1, le=15)
    resolution: Literal["day", "hour", "minute", "second"] | None = None
    multiple_of: int | None = Field(default=None, ge=1, le=2**53, alias="multipleOf")
    time_zone: str | None = Field(default=None, alias="timeZone", pattern=f"^(?:{ZONE})$")
    missing_values: tuple[str, ...] | None = Field(default=None, alias="missingValues")
    true_values: tuple[str, ...] = Field(default=("true", "t", "yes", "y", "1"), alias="trueValues")
    false_values: tuple[str, ...] = Field(default=("false", "f", "no", "n", "0"), alias="falseValues")
    learnt: bool = False
    title: str | None = None
    description: str | None = None

    @field_validator("categories", "missing_values", "special_values", "bin_values", mode="before")
    @classmethod
    def _values_of_labels(cls, values: Any) -> Any:
        """Accept Frictionless's {value, label} form; the value is what the table holds."""
        if isinstance(values, list | tuple):
            return tuple(v["value"] if isinstance(v, dict) and "value" in v else v for v in values)
        return values

    @model_validator(mode="before")
    @classmethod
    def _from_frictionless(cls, data: Any) -> Any:
        """An enum is a list of categories, a year an integer; constraints that bound no value are dropped."""
        if not isinstance(data, dict):
            return data
        data = {**data, "type": "integer"} if data.get("type") == "year" else data
        constraints = data.get("constraints")
        if isinstance(constraints, dict):
            bounds = {key: value for key, value in constraints.items() if key not in _WITHOUT_BOUNDS}
            data = {**data, "constraints": bounds}
            if constraints.get("enum") is not None and data.get("categories") is None:
                data["categories"] = constraints["enum"]
        return data

    @model_validator(mode="after")
    def _complete(self) -> Attribute:
        self._check_texts()
        if self.decimals is not None and self.type != "number":
            raise ValueError(f"is of type {self.type}; decimals are for numbers")
        if self.zeros is not None and self.type != "number":
            raise ValueError(f"is of type {self.type}; zeros behind a point are for numbers")
        if self.resolution is not None and self.type != "datetime":
            raise ValueError(f"is of type {self.type}; a resolution is for timestamps")
        if self.multiple_of is not None and (self.type != "integer" or self.categorical):
            raise ValueError("takes multipleOf only if it is of type integer, with bins")
        if self.time_zone is not None and self.type != "datetime":
            raise ValueError(f"is of type {self.type}; a time zone is for timestamps")
        if self.categorical:
            self._check_categories()
        else:
            self._check_bins()
        return self

    def _check_texts(self) -> None:
        """Half of a surrogate pair, which JSON can hold, would be no text in a table or a manifest."""
        words = (self.missing_values, self.true_values, self.false_values)
        lists = (self.categories, self.special_values, self.constraints.enum, *words)
        texts = (self.format, self.title, self.description, *itertools.chain(*(each or () for each in lists)))
        try:
            "".join(text for text in texts if isinstance(text, str)).encode()
        except UnicodeEncodeError:
            raise ValueError("holds half of a surrogate pair, which is no text") from None

    def _check_categories(self) -> None:
        if not self.values and not (self.learnt and self.nullable):  # learnt: all that was seen is missing
            raise ValueError("needs at least one category, or a type with minimum and maximum")
        self._check_listed(self.values, "category")
        if self.other is not None and self.other not in self.values:
            raise ValueError(f"names other={self.other!r}, which is not one of its categories")
        if self.bins is not None or self.edges is not None or self.special_values is not None:
            raise ValueError("takes categories or bins, not both; special values go with bins")
        if self.bin_values is not None or self.bin_weights is not None:
            raise ValueError("takes binValues only with bins")

    def _check_listed(self, values: tuple[Scalar, ...], what: str) -> None:
        allowed = _PYTHON_TYPES[self.type]
        for value in values:
            if not isinstance(value, allowed) or (isinstance(value, bool) and self.type != "boolean"):
                raise ValueError(f"is of type {self.type} but lists the {what} {value!r}")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"lists a {what} that is not a finite number")
            most = 2**63 if self.type == "integer" else MAX_NUMBER
            if isinstance(value, int | float) and not abs(value) < most:
                raise ValueError(f"lists the {what} {value!r}, which is too large a number")
            if self.type == "number" and float(value) != value:
                raise ValueError(f"lists the {what} {value!r}, which no floating-point number is equal to")
        if len({self._unit(value) for value in values}) != len(values):
            raise ValueError(f"lists a {what} twice")

    def _check_bins(self) -> None:
        if not self._has_bins and (self.bins is not None or not self.special_values):
            raise ValueError("needs constraints.minimum and constraints.maximum (or edges, or categories)")
        if self.edges is not None and self.bins is not None:
            raise ValueError("takes bins or edges, not both")
        if not np.all(self.cuts[1:] > self.cuts[:-1]):
            raise ValueError("needs edges that increase (minimum below maximum, no more bins than values)")
        texts = self.sentinels
        self._check_listed(tuple(v for v in self.special_values or () if v not in texts), "special value")
        if len(set(texts)) != len(texts):
            raise ValueError("lists a special value twice")
        if self.type != "number" and len(self.cuts) > 1:
            inside = np.diff(np.searchsorted(self.specials, self.cuts))
            full = np.flatnonzero(np.diff(self.cuts) <= inside)
            if len(full):
                what = f"lists every value of bin {full[0] + 1} as a special value"
                raise ValueError(f"{what}; leave out the bin or the values")
        if self.bin_values is not None or self.bin_weights is not None:
            self._check_bin_values()
        if self.other is not None:
            self._code_of(self.other)

    def _check_bin_values(self) -> None:
        values, weights = self.bin_values or (), self.bin_weights or ()
        self._check_listed(values, "bin value")
        if len(values) != len(weights) or not all(0 < weight < 2**31 for weight in weights):
            raise ValueError("needs as many binWeights as binValues, whole numbers above 0 and below 2^31")
        units = self.drawn[0]
        if not ((units >= self.cuts[0]) & (units < self.cuts[-1])).all():
            raise ValueError("lists a bin value that lies in none of its bins")
        if np.isin(units, self.specials).any():
            raise ValueError("lists a bin value that is a special value")

    @property
    def categorical(self) -> bool:
        """Whether the codes stand for listed values rather than bins."""
        return self.categories is not None or self.type in ("string", "boolean")

    @cached_property
    def missing_texts(self) -> list[str]:
        """The texts that stand for null: as declared, else the empty one and, but in a column of text, the
        MARKERS. A listed value is a value.
        """
        texts, words = self.missing_values, (*self.values, *self.sentinels)
        if texts is None:
            texts = ("",) if self.type == "string" else ("", *MARKERS)
            words = (*words, *self.true_values, *self.false_values)
        return [text for text in texts if text not in words]

    @property
    def sentinels(self) -> tuple[str, ...]:
        """The texts among the special values, in code order: what is no number or moment of the type."""
        listed = self.special_values or ()
        return tuple(v for v in listed if isinstance(v, str) and not (self._moments and is_moment(v)))

    @property
    def _moments(self) -> bool:
        return self.type in ("date", "datetime")

    @cached_property
    def specials(self) -> np.ndarray:
        """int64 or float64[special]: the special values but for texts, ascending, in the unit of `cuts`."""
        texts = self.sentinels
        values = [self._unit(v) for v in self.special_values or () if v not in texts]
        return np.sort(np.array(values, dtype=self.cuts.dtype))

    @cached_property
    def drawn(self) -> tuple[np.ndarray, np.ndarray]:
        """(int64 or float64[bin value]: ascending, in the unit of `cuts`; int64[bin value]: its weight)."""
        units = np.array([self._unit(v) for v in self.bin_values or ()], dtype=self.cuts.dtype)
        order = np.argsort(units, kind="stable")
        return units[order], np.array(self.bin_weights or (), dtype=np.int64)[order]

    @cached_property
    def special_codes(self) -> np.ndarray:
        """int64[special]: the codes of `specials`. Codes of bins and specials rise with their values."""
        if len(self.cuts) == 1:
            return np.arange(len(self.specials))
        places = np.searchsorted(self.cuts[1:-1], self.specials, side="right")
        after = np.array(self.specials > self.cuts[places], dtype=np.int64)  # a bin's own begin comes first
        return places + after + np.arange(len(self.specials))

    @cached_property
    def bin_codes(self) -> np.ndarray:
        """int64[bin]: the code of each bin."""
        both = np.arange(len(self.cuts) - 1 + len(self.specials))
        return np.delete(both, self.special_codes)

    @property
    def nullable(self) -> bool:
        return not self.constraints.required

    @property
    def ordered(self) -> bool:
        """Whether neighbouring codes are neighbouring values."""
        return not self.categorical or self.categories_ordered

    @property
    def values(self) -> tuple[Scalar, ...]:
        """The listed values, in code order (categorical attributes only)."""
        if self.type == "boolean" and self.categories is None:
            return (False, True)
        return self.categories or ()

    @property
    def _has_bins(self) -> bool:
        ends = (self.constraints.minimum, self.constraints.maximum)
        return self.edges is not None or None not in ends

    @cached_property
    def cuts(self) -> np.ndarray:
        """int64 or float64[bins + 1]: bin i holds cuts[i] <= x < cuts[i + 1]; of special values alone, one.

        Integers as they are, dates in days and timestamps in microseconds since 1970; numbers in float64.
        """
        whole = self.type != "number"
        if not self._has_bins:
            return np.zeros(1, dtype=np.int64 if whole else np.float64)
        if self.edges is not None:
            ends = [self._scalar(edge) for edge in self.edges]
            ends[-1] = ends[-1] + 1 if whole else math.nextafter(ends[-1], math.inf)
            return np.array(ends, dtype=np.int64 if whole else np.float64)
        lower, upper = self._scalar(self.constraints.minimum), self._scalar(self.constraints.maximum)
        if not whole:
            cuts = np.linspace(lower, upper, (self.bins or DEFAULT_BINS) + 1)
            cuts[-1] = np.nextafter(upper, np.inf)
            return cuts
        span = int(upper) - int(lower) + 1
        bins = self.bins or (span if 0 < span <= ONE_BIN_EACH else DEFAULT_BINS)
        whole_steps, rest = divmod(span, bins)  # lower + span * i // bins; 64 bits need not hold the product
        i = np.arange(bins + 1, dtype=np.int64)
        return int(lower) + whole_steps * i + rest * i // bins

    def _unit(self, value: Any) -> Any:
        """A listed value in the unit of `cuts`, where the type has one."""
        return self._scalar(value) if self._moments else value

    @property
    def units(self) -> np.ndarray:
        """int64 or float64[category]: the listed numbers or moments in the unit of `cuts`."""
        values = [self._unit(value) for value in self.values]
        return np.array(values, dtype=np.float64 if self.type in ("number", "boolean") else np.int64)

    def _scalar(self, value: Any) -> int | float:
        """`value` of a bound or edge in the unit of `cuts`; raises ValueError if the type does not fit."""
        try:
            if self.type == "date":
                return (datetime.date.fromisoformat(str(value)) - _EPOCH).days
            if self.type == "datetime":
                moment = datetime.datetime.fromisoformat(str(value))
                if moment.tzinfo is not None:
                    moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
                return (moment - _EPOCH_UTC) // datetime.timedelta(microseconds=1)
            number = float(value)
            if not abs(number) <= MAX_NUMBER:
                raise ValueError(value)
            if self.type == "number":
                return number
            if (int(value) != number and abs(number) < 2**53) or abs(int(value)) >= 2**62:
                raise ValueError(value)
            return int(value)
        except (ValueError, TypeError, OverflowError):
            kind = f"{self.type}{_WITHIN.get(self.type, '')}"
            raise ValueError(f"has the bound {value!r}, which is not a {kind}") from None

    @property
    def size(self) -> int:
        """How many codes there are, null included."""
        if self.categorical:
            return len(self.values) + self.nullable
        return len(self.cuts) - 1 + len(self.special_values or ()) + self.nullable

    @property
    def null_code(self) -> int | None:
        return self.size - 1 if self.nullable else None

    @property
    def missing_code(self) -> int:
        """The code of what is missing: of null, or of what cannot be read where it is never null."""
        return self.fallback_code if self.null_code is None else self.null_code

    @property
    def fallback_code(self) -> int:
        """The code of a value that cannot be read or is not listed: of `other`, else null, else the first."""
        if self.other is None:
            return self.size - 1 if self.nullable else 0
        return self.values.index(self.other) if self.categorical else self._code_of(self.other)

    def _code_of(self, value: Scalar) -> int:
        """The code of one value of an attribute with bins."""
        if value in self.sentinels:
            return len(self.cuts) - 1 + len(self.specials) + self.sentinels.index(str(value))
        unit = self._scalar(value)
        special = np.flatnonzero(self.specials == unit)
        if len(special):
            return int(self.special_codes[special[0]])
        if not len(self.bin_codes):
            raise ValueError(f"names other={value!r}, which is not one of its special values")
        place = int(np.searchsorted(self.cuts, unit, side="right")) - 1
        return int(self.bin_codes[min(max(place, 0), len(self.bin_codes) - 1)])


def is_moment(text: str) -> bool:
    """Whether a special value of a date or timestamp is one of its values; else it is a text of its own."""
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
