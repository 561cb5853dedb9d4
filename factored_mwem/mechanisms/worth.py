"""Worth: whether what is learnt of a table is worth a release, or noise hides nearly all of it. What decides
are noisy answers and public facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from factored_mwem.accounting.accountant import Budget
from factored_mwem.domain.attribute import OTHER, Attribute
from factored_mwem.errors import NothingLearnt, some_names
from factored_mwem.mechanisms.functions import Relation
from factored_mwem.mechanisms.prune import Fate, Pruned
from factored_mwem.mechanisms.shares import discovery_share
from factored_mwem.privacy.discover import value_thresholds
from factored_mwem.privacy.found_column import FoundColumn
from factored_mwem.privacy.glance import Glance
from factored_mwem.privacy.session import Measurement, Session
from factored_mwem.privacy.text_votes import RARE, SURE
from factored_mwem.request.policy import Policy

MUCH = 0.25
"""A warning says so where noise hides this share of the rows in the mean column."""
HOPELESS = 0.9
"""A release ends where it is more of the rows in every column. Else rows that say how far off they are are
worth more than none, for half of the budget or more is spent by then.
"""
LOOKS = {
    "clock": "most of its values look like times of day, and noisy counts do not tell how they are written: "
    "write them as numbers, such as minutes since midnight, or with their date",
    "amount": "most of its values look like numbers, and noisy counts do not tell what stands beside them: "
    "write them plainly",
    "dated": "most of its values look like dates that are not written by ISO 8601: say how they are, as in "
    "--date-format '%m/%d/%Y %H:%M:%S', or store them as dates",
    "untold": "so few of its values are not missing that noise hides whether they are numbers, dates or "
    "text: declare its type",
}
"""What a column of text looks like, by FoundColumn, and what to do about it."""
FEWEST = {"string": 12, "boolean": 3}
OF_NUMBERS = 8
"""How many times the rows that a text needs to be found, where its rows hold no other rare value, a table
must have, the mean over its columns by type, else its first counts end a release; of texts, those that a
glance tells to be shared count as numbers do. Measured on 13 tables (people, surveys, web users; 2 to 22
columns; epsilon .1, 1 and 10, three runs each): noise hid half of the mean column of nearly all of numbers
below 6 to 10 times, of texts below 12 to 16, but of texts of few values below 4 to 8 already.
"""
BARELY = 0.15
"""A table is not learnt if its cells that tell something would fill less of one column."""
CLEAR = 3.0
"""Standard deviations by which a column must stand out to be one of which something can be told."""
TOLD = 6
"""The number of rows needs no count of its own where noise hides less than one in so many of the fewest."""


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """Ends the learning of a table by a `session` with NothingLearnt, as soon as what is paid for tells that
    hardly anything will be found. `joined`: its columns are learnt beside others, which are public.
    """

    session: Session
    policy: Policy
    joined: bool = False

    def check_glance(self, seen: Glance) -> tuple[bool, bool]:
        """After a look at all columns. Whether it leaves no doubt that there are rows enough, which it does
        not once they were counted, and that noise does not hide nearly all cells.
        """
        least, columns, (rows, stddev) = needs_of(self.policy), len(seen.fields), seen.rows
        one = rows_for_a_text(self.policy, self.session.accountant.budget, columns)

        def typed(kind: str) -> float:
            return least.get(kind, OF_NUMBERS)

        fewest = one * seen.mean_of(least["boolean"], OF_NUMBERS, least["string"], typed)
        unsure = SURE * stddev
        told = seen.counted is not None or TOLD * unsure < fewest
        if rows + unsure < fewest or (told and rows + stddev / 2 < fewest):
            raise self._too_few(rows, fewest, columns)
        hidden = hides_nearly_all(seen)
        if hidden and seen.missing > HOPELESS:
            how = "no epsilon tells more of it; name the columns that hold something with --columns"
            raise self.nothing(f"nearly every cell is missing: {how}")
        if hidden:
            what = "nearly every cell is missing, or holds a text that is too rare to be told from noise"
            raise self._nothing(what, max(rows, 0.0), alone=columns == 1)
        return told or rows - unsure >= fewest, hidden is False

    def check_found(self, rows: float, found: Sequence[FoundColumn]) -> None:
        """After discovery: where texts are all there is, and hardly any was found, no other is measured."""
        lost = {each.column.name: 0.0 for each in found}
        for each in found:
            if each.type == "string":
                missed = each.present - sum(each.texts.values())
                lost[each.column.name] = min(max(missed, 0.0) / rows, 1.0)
        hints = [f"; {each.column.name!r}: {LOOKS[each.looks]}" for each in found if each.looks in LOOKS]
        self._check_lost(rows, lost, hints[0] if hints else "")

    def check_settled(
        self, rows: float, settled: Sequence[tuple[Pruned, Measurement]], relations: Sequence[Relation]
    ) -> str:
        """After the first marginals: how much noise hides of the mean column, in words, if much. What follows
        from other columns is as good as the worst of them.
        """
        lost = {made.attribute.name: predicted_loss(made, m, rows) for made, m in settled}
        for target, *sources in (relation.rule.columns for relation in relations):
            lost.setdefault(target, max((lost.get(name, 1.0) for name in sources), default=1.0))
        self._check_lost(rows, lost)
        unique = {made.attribute.name for made, _ in settled if is_unique(made.attribute, made.fate)}
        judged = {name: share for name, share in lost.items() if name not in unique} or lost
        mean = sum(judged.values()) / max(len(judged), 1)
        if mean <= MUCH:
            return ""
        worst = sorted((name for name in judged if judged[name] > MUCH), key=judged.__getitem__, reverse=True)
        hidden = f"noise hides {mean:.0%} of the average column, most of {some_names(worst)}"
        return f"{hidden}; a declared domain (`fmwem domain draft` prints one) would tell more of it"

    def _check_lost(self, rows: float, lost: Mapping[str, float], hint: str = "") -> None:
        """`lost`: the share of the rows that is wrong, by column; `hint`: what may help."""
        if lost and min(lost.values()) > HOPELESS:
            what = "nearly every value of every column is too rare to be told from noise"
            raise self._nothing(what + hint, rows, alone=len(lost) == 1)

    def _too_few(self, rows: float, fewest: float, columns: int) -> NothingLearnt:
        of = "a column" if columns == 1 else f"{columns} columns"
        return self._nothing(f"to learn {of} takes some {self._counted(fewest)}", max(rows, 0.0))

    def _nothing(self, what: str, rows: float, *, alone: bool = False) -> NothingLearnt:
        """`rows`: 0 if nobody knows how many; `alone`: one column, which may be a line that was not cut."""
        budget = self.session.accountant.budget
        few = f"about {self._counted(rows)} are too few" if rows else "there are too few rows"
        how = (
            f"{few} for epsilon {budget.epsilon:g} without a domain: declare one (`fmwem domain draft` "
            "prints a first one), name fewer columns with --columns, or raise --epsilon"
        )
        if alone and not self.joined:
            how = "is it one column, or does the file's first line not show its separator?"
        return self.nothing(f"{what}; {how}")

    def nothing(self, what: str) -> NothingLearnt:
        """The error that says `what`, and what was spent."""
        accountant = self.session.accountant
        return NothingLearnt(f"{what} (spent so far: {accountant.budget.in_words(accountant.spent)})")

    def _counted(self, counted: float) -> str:
        """In words what was counted: rows, or grains of people."""
        grains = self.session.unit.grains
        return f"{counted / grains:,.0f} people" if grains else f"{counted:,.0f} rows"


def hides_nearly_all(seen: Glance) -> bool | None:
    """Whether noise hides nearly all cells; None while there is a doubt. Either nearly all are rare texts, in
    the mean column and in each that noise does not hide, or nearly all are that or missing.
    """
    columns, doubt, (rows, _) = len(seen.fields), False, seen.rows
    for kinds, most in ((3, (1 - HOPELESS) * columns), (2, BARELY)):
        cells, stddev = seen.among(kinds)
        whole, noise = float(cells.sum()), stddev * columns**0.5
        if cells.max() < CLEAR * stddev and (kinds == 3 or whole < CLEAR * noise):
            if whole + SURE * noise < most * rows:
                return True
            doubt |= whole - SURE * noise < most * rows
    return None if doubt else False


def needs_of(policy: Policy) -> dict[str, int]:
    """FEWEST under a policy: where unique texts are dropped, what is left of texts counts as numbers do."""
    return FEWEST | ({"string": OF_NUMBERS} if policy.drop_unique else {})


def fewest_rows(policy: Policy, budget: Budget, types: Sequence[str]) -> float:
    """The rows that a table with columns of these types needs, about, to be learnt: a public fact."""
    least = needs_of(policy)
    mean = sum(least.get(kind, OF_NUMBERS) for kind in types) / len(types)
    return mean * rows_for_a_text(policy, budget, len(types))


def rows_for_a_text(policy: Policy, budget: Budget, columns: int) -> float:
    """The rows that a text needs to be found in a small table, where its rows hold no other rare value."""
    share = discovery_share(policy, budget, 0.0, columns)
    return value_thresholds(budget, policy.unit, share, columns)[0]


def is_unique(attribute: Attribute, fate: Fate) -> bool:
    """Whether hardly any value of a column of text was found: an identifier, free text, or a category of many
    values that few rows have each; the noisy counts do not tell which.
    """
    present = fate.kept + fate.other
    return attribute.type == "string" and attribute.other == OTHER and fate.other > RARE * max(present, 0.1)


def predicted_loss(made: Pruned, measured: Measurement, rows: float) -> float:
    """The share of rows that are wrong in a column on its own: what was lost, and half of the noise."""
    noise = len(made.noisy) * measured.scale.mean_abs / (2 * rows)
    return min(made.fate.clipped + made.fate.other + noise, 1.0)
