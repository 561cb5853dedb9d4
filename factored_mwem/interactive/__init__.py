"""Answers to queries asked one by one: a hypothesis answers what it knows well enough, the rest is measured.

    construction        what a hypothesis is: it answers, it is updated, and it says how often that can happen
    constructions       multiplicative weights, Frieze and Kannan's, the median mechanism's
    factored            multiplicative weights, and all that was measured, on the clique trees of a release
    sequence            whether a list of updates is one that the theorems speak of
    mechanism           tests and measurements over any construction and any sealed answers; its `prices`, and
                        the `rule` that says which of the two
    asking              `ask`: a session of questions about a private table; `session` while it lasts
    offline             the IC mechanism: all queries known beforehand
    algorithm1          the paper's own, with its constants: for replays on public tables

Source: Gupta, Roth, Ullman 2011; Roth 2011, lecture 9.
"""

from factored_mwem.interactive.construction import Construction
from factored_mwem.interactive.sequence import Checked, Update, check

__all__ = ["Checked", "Construction", "Update", "check"]
