"""Answers to queries asked one by one: a hypothesis answers those that it knows well enough, the others are
measured.

    constructions       hypotheses that are updated, and how often that can happen: multiplicative
                        weights, Frieze and Kannan's, the median mechanism's; a check of update sequences
    sparse              multiplicative weights that store what updates touched
    factored            multiplicative weights, and all that was measured, on the clique trees of a release
    mechanism           tests and measurements over any construction and any sealed answers, and which of the
                        two; their `prices`
    asking              `ask`: a session of questions about a private table; `session` while it lasts
    offline             the IC mechanism: all queries known beforehand; its theorem, pure and approximate
    known               `answer_known`, `answer_known_keys`: that mechanism on a private table
    algorithm1          the paper's own, with its constants: for replays on public tables

Source: Gupta, Roth, Ullman 2011; Roth 2011, lecture 9.
"""

from factored_mwem.sessions.online.constructions import Checked, Construction, Update, check
from factored_mwem.sessions.online.known import KnownAnswers, answer_known, answer_known_keys
from factored_mwem.sessions.online.offline import epsilon_0, epsilon_0_approximate, least_alpha

__all__ = [
    "Checked", "Construction", "KnownAnswers", "Update", "answer_known", "answer_known_keys", "check",
    "epsilon_0", "epsilon_0_approximate", "least_alpha",
]  # fmt: skip
