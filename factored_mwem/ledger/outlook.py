"""Outlook: what a user can do after a run that had paid for noise ended by an error."""

from __future__ import annotations

from collections.abc import Sequence

from factored_mwem.errors import COMPLETE, Changed, FmwemError, InputError, Lost, NotAccepted, ResourceError

GOES_ON = {
    True: "run the same command again: it goes on from what was measured",
    False: "change what the message names, then run again with the same run id: it goes on from what was "
    "measured",
}
"""By whether the same command may succeed."""
MAY_BEAR = (
    "with more memory, or other --max-cells or --max-memory, the same run id goes on from what was measured, "
    "as far as that fits"
)
STAYS_SPENT = "what was spent stays spent; another --run-id is a new release and spends again"
AS_IT_WAS = "with the input as it was when it began, the same run id goes on from what was measured"
PAYS_AGAIN = "running again is a new release and spends again"


def outlook(
    error: BaseException, *, finished: bool, journaled: bool, drawing: bool, began: Sequence[str]
) -> tuple[bool, str]:
    """Whether the same command may succeed without paying again, and what to do.

    `finished`: its files are in place; `drawing`: not all noise was drawn; `began`: flags that an earlier
    attempt had set otherwise.
    """
    if finished:
        return journaled, COMPLETE
    if isinstance(error, Changed) and journaled:
        return False, AS_IT_WAS
    if isinstance(error, Lost) and drawing and began:
        flags = " and ".join(began)
        again = "as when it began, and the same run id: it goes on from what was measured"
        return False, f"give {flags}, {again}"
    # What was asked is at fault, and cannot be changed now.
    at_fault = drawing and isinstance(error, InputError) and not isinstance(error, Changed)
    if isinstance(error, Lost) or at_fault:
        return False, STAYS_SPENT
    if not journaled:
        return False, PAYS_AGAIN
    if isinstance(error, NotAccepted):  # from the journal it would be so again
        return False, STAYS_SPENT
    too_large = drawing and isinstance(error, ResourceError) and not error.retryable
    if isinstance(error, MemoryError) or too_large:
        return False, MAY_BEAR
    retryable = getattr(error, "retryable", not isinstance(error, FmwemError))
    return retryable, GOES_ON[retryable]
