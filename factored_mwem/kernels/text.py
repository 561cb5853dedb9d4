"""Kernel that finds the records of delimited text, and marks those that a fast reader would read differently
from this program.
"""

from __future__ import annotations

from typing import NamedTuple

from factored_mwem.kernels import U1, I8x2, entry

RAGGED, OPEN, RETURN, FEED, TAIL, LONG, WIDE = 1, 2, 4, 8, 16, 32, 64
"""Properties of a record: another number of fields than the header; a quote still open where its line ends; a
carriage return that ends no line; a line feed that ends none, in a file whose lines end in both; text behind
a closing quote; more bytes than a record may have; bytes beyond ASCII.
"""
START, PLAIN, QUOTED, CLOSED = 0, 1, 2, 3
"""Where the scan is: before a field, in one without quotes, inside quotes, just behind a closing quote."""


class Form(NamedTuple):
    """How records are written: as lines that end with a line feed or, where `both` is set, with a carriage
    return and a line feed; with `multiline`, outside quotes alone.

    `longest`: bytes. Text behind a closing quote is odd with `multiline` alone, bytes beyond ASCII with
    `wide` alone.
    """

    delimiter: int
    columns: int
    longest: int
    multiline: bool
    both: bool
    wide: bool


@entry
def scan(data: U1, form: Form, odd: I8x2) -> tuple[int, int, int]:
    """(records, how many of them are odd, bytes up to the end of the last whole one) of `data`, which begins
    with a record.

    A line without any byte is no record where there is more than one column. `odd: int64[record, (begin, end,
    number, what)]` takes the odd ones, `what` being the sum of what they have.
    """
    delimiter, columns, longest, multiline, both, wide = form
    quote, feed, back = 34, 10, 13
    records = many_odd = begin = what = 0
    fields, state = 1, START
    i, n = 0, len(data)
    while i < n:
        c = data[i]
        if state == PLAIN and c != delimiter and c != feed and c != back:  # most bytes
            i += 1
            continue
        ends = c == feed and (not both or (i > begin and data[i - 1] == back))
        if state == QUOTED and (multiline or not ends):
            if c == quote:
                if i + 1 < n and data[i + 1] == quote:
                    i += 1
                else:
                    state = CLOSED
        elif ends:
            if state == QUOTED:
                what |= OPEN
            length = i - begin
            if columns == 1 or length > 1 or (length == 1 and data[begin] != back):
                if fields != columns:
                    what |= RAGGED
                if length > longest:
                    what |= LONG
                if not multiline:
                    what &= ~TAIL
                for j in range(begin, i if wide else begin):
                    if data[j] >= 128:
                        what |= WIDE
                        break
                if what:
                    odd[many_odd, 0], odd[many_odd, 1], odd[many_odd, 2], odd[many_odd, 3] = (
                        begin,
                        i + 1,
                        records,
                        what,
                    )
                    many_odd += 1
                records += 1
            begin, fields, state, what = i + 1, 1, START, 0
        elif c == delimiter:
            fields += 1
            state = START
        elif c == back and i + 1 < n and data[i + 1] == feed:
            pass  # a part of the line's end
        elif c == quote and state == START:
            state = QUOTED
        else:
            if c == back:
                what |= RETURN
            elif c == feed:
                what |= FEED
            if state == CLOSED:
                what |= TAIL
            state = PLAIN
        i += 1
    return records, many_odd, begin
