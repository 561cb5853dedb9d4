"""What becomes of a run that ended by an error: the words for a user."""

from __future__ import annotations

GOES_ON = {
    True: "run the same command again: it goes on from what was measured",
    False: "change what the message names, then run again with the same run id: it goes on from what was measured",
}


MAY_BEAR = "with more memory, or other --max-cells or --max-memory, the same run id goes on from what was measured, as far as that fits"


STAYS_SPENT = "what was spent stays spent; another --run-id is a new release and spends again"


AS_IT_WAS = "with the input as it was when it began, the same run id goes on from what was measured"


PAYS_AGAIN = "running again is a new release and spends again"
