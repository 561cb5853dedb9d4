"""What each variation of section 2.3.3 is worth: replay with and without a guard, histogram initialisation,
last or average iterate, adaptive rounds.

NOT PRIVATE, as all of the replay.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import gmean

from factored_mwem.mechanisms.rounds import Round, Schedule, rounds
from factored_mwem.model.dense import ProductModel
from replay import data
from replay.baselines import relative_entropy
from replay.data import SMALL
from replay.drawing import canvas, frame
from replay.figure import Mark, Marks, Row, by, grid, mark, mean, pick, values
from replay.paper import HALF, Paper, PaperLearner, Task, paper_mwem

EPSILONS = (0.5, 1.0, 2.0)
ROUNDS = {"mildew": 8, "czech": 12, "rochdale": 12}
ROUNDS_OF_NLTCS = 12
SWEEPS, GUARD, SHARE = 100, 1.0, 0.2
FIRST = 64
"""Epsilon of each question in the first adaptive run is the whole over this."""
DIVERGED = 4.0
"""Unguarded replay diverges where its mean relative entropy is this many times that of guarded replay."""
SUBSTANTIAL = 1.25
"""Times lower a relative entropy that is substantially lower: the paper gives no factor."""
ADAPTIVE, UNGUARDED, GUARDED = "adaptive rounds", "unguarded replay", "guarded replay"
STYLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "average iterate": {"average": True},
    UNGUARDED: {"sweeps": SWEEPS},
    GUARDED: {"sweeps": SWEEPS, "guard": GUARD},
    "replay and histogram": {"sweeps": SWEEPS, "guard": GUARD, "init_share": SHARE},
    ADAPTIVE: {"sweeps": SWEEPS, "guard": GUARD},
}


def cases(full: bool) -> list[Row]:
    """Every variation on every table, a unit for each epsilon. Unguarded replay never stops early and is cut
    short, but not on mildew, where marks compare it with the guarded and with none and the tails are long: at
    epsilon 0.5 nine in ten means of 10 guarded runs lie between 1.3 and 5.2.
    """
    most = 50
    runs = {m: most if full else 2 if m == UNGUARDED else 10 for m in STYLES}
    on_mildew = runs | dict.fromkeys(("plain", GUARDED), most) | {UNGUARDED: most if full else 10}
    runs_of = dict.fromkeys(SMALL, runs) | {"mildew": on_mildew}
    small = grid(data=SMALL, method=STYLES, epsilon=EPSILONS, first=0)
    large = grid(data=data.nltcs_name(), method=STYLES, epsilon=1.0, first=range(5 if full else 1), runs=1)
    return [case | {"runs": runs_of[case["data"]][case["method"]]} for case in small] + large


def run(case: Row) -> list[Row]:
    """A row for each run."""
    name, method, epsilon = case["data"], case["method"], case["epsilon"]
    table = data.named(name)
    counts, task = table.histogram(), Task.of_parities(table)
    paper = Paper(epsilon, ROUNDS.get(name, ROUNDS_OF_NLTCS), joined=True, **STYLES[method])
    rows = []
    for number in range(case["first"], case["first"] + case["runs"]):
        rng = np.random.default_rng([23, number])
        if method == ADAPTIVE:
            trace = adaptive_mwem(task, paper, rng, first=Fraction(epsilon) / FIRST)
            model, asked, spent = trace.model, sum(trace.asked), float(trace.spent)
            pairs = itertools.pairwise(trace.asked[:-1])  # the last run ends with the budget
            shrank = sum(later < earlier for earlier, later in pairs)
        else:
            one = paper_mwem(task, paper, rng)
            model, asked, spent, shrank = one.model, len(one.asked), epsilon, 0
        entropy = relative_entropy(counts, model.components[0].weights)
        about = {"data": name, "method": method, "epsilon": epsilon, "run": number}
        rows.append({**about, "entropy": entropy, "questions": asked, "spent": spent, "shrank": shrank})
    return rows


class Adaptive(NamedTuple):
    """The final model, how many questions each run asked, and the epsilon that all of them spent, exactly."""

    model: ProductModel
    asked: list[int]
    spent: Fraction


@dataclass(slots=True)
class Run(Schedule):
    """Rounds at one `cost`, while the budget holds another: until a measurement shows no more than its
    noise.
    """

    cost: Fraction = Fraction(0)
    over: bool = False

    def __iter__(self) -> Iterator[Round]:
        while not self.over and self.accountant.left >= self.cost:
            self.done += 1
            yield Round(self.cost * self.select_share, self.cost * (1 - self.select_share))

    def note(self, signal: float, noise: float) -> None:
        self.over = signal <= noise


def adaptive_mwem(task: Task, paper: Paper, rng: np.random.Generator, *, first: Fraction) -> Adaptive:
    """Runs of MWEM, the j-th with 2^j `first` for each choice and as much for each answer, of questions with
    one answer; epsilon is never passed.

    `paper.rounds` plays no part. Each run goes on from the model of the one before, which is public, and
    replays its own, more exact answers alone. The product's adaptive schedule is one run: it asks nothing
    twice, and spends what is left over at the end.
    """
    session, asked, cost = task.session(paper.epsilon, rng), list[int](), 2 * first
    model = ProductModel.uniform(task.domain, task.total, joined=paper.joined)
    while session.left >= cost:
        schedule = Run(session.accountant, 1, HALF, cost=cost)
        asked.append(rounds(session, PaperLearner(session, task, paper, model), schedule, lambda _: None))
        cost *= 2
    return Adaptive(model, asked, session.accountant.spent)


def plot(rows: list[Row]) -> Any:
    """A panel for each table: relative entropy of each variation, a bar for each epsilon."""
    names = values(rows, "data")
    drawn, axes = canvas(2, -(-len(names) // 2))
    for spare in axes[len(names) :]:
        spare.get_figure(root=False).set_visible(False)
    for axis, name in zip(axes, names, strict=False):
        at = by(pick(rows, data=name), "epsilon")
        width = 0.8 / len(at)
        for i, (epsilon, here) in enumerate(at.items()):
            bars = [[row["entropy"] for row in pick(here, method=m)] for m in STYLES]
            xs, heights = np.arange(len(STYLES)) + (i - (len(at) - 1) / 2) * width, [np.mean(b) for b in bars]
            axis.bar(xs, heights, width, yerr=[np.std(b) for b in bars], label=f"epsilon {epsilon:g}")
        axis.set_xticks(range(len(STYLES)), list(STYLES), rotation=40, ha="right", fontsize=9)
        frame(axis, keyed={"columns": 3}, title=name, ylabel="relative entropy", yscale="log")
    return drawn


def marks(rows: list[Row]) -> Marks:
    """Each variation against what it varies, over all tables and epsilons; a stand-in counts for nothing."""
    real = [row for row in rows if row["data"] != data.STAND_IN]
    adaptive = pick(real, method=ADAPTIVE)
    overspent = sum(row["spent"] > row["epsilon"] for row in adaptive)
    shrunk = sum(row["shrank"] > 0 for row in adaptive)
    mildew = {at: entropy_of(real, "mildew", *at) for at in itertools.product(STYLES, EPSILONS)}

    def times(method: str, other: str) -> dict[float, float]:
        return {e: mildew[method, e] / mildew[other, e] for e in EPSILONS}

    divergence, harm = times(UNGUARDED, GUARDED), times(UNGUARDED, "plain")
    most = max(divergence, key=lambda e: divergence[e])
    ends = {"without": mildew[UNGUARDED, most], "guarded": mildew[GUARDED, most], "most": most}
    number, questions = len(adaptive), mean(adaptive, "questions")
    return [
        mark(divergence[most] >= DIVERGED, **ends),
        worth(real, GUARDED, "plain"),
        worth(real, "replay and histogram", GUARDED, sometimes=True),
        worth(real, "plain", "average iterate"),
        worth(real, ADAPTIVE, GUARDED),
        mark(number > 0 and shrunk == 0, shrunk=shrunk, releases=number),
        mark(number > 0 and overspent == 0, overspent=overspent, releases=number, questions=questions),
        mark(max(harm.values()) < SUBSTANTIAL, harm=harm, guarded=times(GUARDED, "plain")),
    ]


def worth(rows: list[Row], better: str, worse: str, *, sometimes: bool = False) -> Mark:
    """Holds where the geometric mean, over tables and epsilons, of the ratios of mean relative entropies is
    below 1, and so are half of them; `sometimes`: where that of one table is at most 1 / SUBSTANTIAL.
    """

    def ratio(name: str, epsilon: float) -> float:
        return entropy_of(rows, name, better, epsilon) / entropy_of(rows, name, worse, epsilon)

    ratios = {at: ratio(*at) for at in by(rows, "data", "epsilon")}
    names, wins = values(rows, "data"), sum(each < 1 for each in ratios.values())
    tables = {n: gmean([each for (name, _), each in ratios.items() if name == n]) for n in names}
    overall, once = gmean(list(ratios.values())), 1 / SUBSTANTIAL
    holds = (
        min(tables.values(), default=1.0) <= once if sometimes else overall < 1 and 2 * wins >= len(ratios)
    )
    words = [f"{'' if each < 1 else 'not '}on {name} ({each:.2f})" for name, each in tables.items()]
    return mark(holds, overall=overall, tables=words, wins=wins, settings=len(ratios), once=once)


def entropy_of(rows: list[Row], name: str, method: str, epsilon: float) -> float:
    """Mean over the runs, at least 1e-9 so that ratios exist."""
    return max(mean(pick(rows, data=name, method=method, epsilon=epsilon), "entropy"), 1e-9)
