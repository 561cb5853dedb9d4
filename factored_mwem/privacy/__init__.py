"""The privacy argument, in prose. The audit boundary is this folder and what its sensitivities rest on: counts.py, counting.py and its kernels,
candidates.py and kernels/scoring.py (scores), transform.py (residuals), queries/ and kernels/linear.py (answers and sensitivities of cubes, ranges
and parities); engine.py, mwem.py and asking.py say what is asked.

Neighbours. Two tables are neighbours when one has the rows of one person more (add-remove), or another person's rows in place of one's
(replace); a person has at most k rows. `neighbours.py` holds every sensitivity that follows.

Composition. Every record has a value in every component, so the costs of measurements on different components ADD. The cells of one
marginal are disjoint in records, so a whole marginal costs one sensitivity, however many cells it has, at whatever level of its attributes:
groups of codes are fixed by noisy answers, or by public sizes, before the marginal is asked for. `ledger.py` knows only addition.
What is asked, at what price and how often may depend on earlier noisy answers; the ledger is a privacy filter, which refuses whatever would
exceed a budget fixed beforehand, and that is sound for epsilon (Rogers, Roth, Ullman, Vadhan 2016) as for approximate zCDP (Whitehouse,
Ramdas, Rogers, Wu 2023).

Across releases. Each release of a dataset is entered in its owner's ledger file before the first noise is drawn: `Ledger.charge` reserves
the whole budget there, in one transaction with a look at the cap. `cap.py` says how releases add up, by a filter again, with limits that are
fixed before anything was seen. No entry is ever taken back. A run that has an id writes every noisy answer to its journal, and syncs it, before
the answer is used (`journal.py`); the same id again takes the answers from there, which is post-processing, and draws only what is missing. An
answer that did not reach the disk was seen by nobody, so it is drawn again under the same charge; that assumes that a crash does not depend on
what is drawn.

Selecting. A score compares a true marginal with a model's. The model may be that of an earlier round, and only some candidates may be on offer;
which ones is decided by public facts and earlier noisy answers, so given those every score is a fixed function of the table. It moves by no
more than the answers behind it: k or 2 k for a marginal; where questions of several kinds compete, the largest of their kinds counts for all.
A public weight of at most 1 makes a score move less, never more.

Reading. Private numbers lie in `Sealed` objects. `Access.open` is the one way in; it charges the ledger first. `discover`, `select` and
`measure` (of marginals, of residuals at once: `residuals.py`, of single questions: `questions.py`) are its only callers. Their answers carry
noise from `noise.py`, which is all of OpenDP that the package knows.

Post-processing. Everything else, the update, the plan, sampling, the manifest, sees only noisy answers and public facts: the names and
types of columns, the domain, the workload, the policy. It costs nothing.

Limits. The names and types of the input's columns count as public, so a data frame whose types depend on its values (one gap turns pandas
integers into floats) should be given a fixed schema. A table without any row, or one that cannot be parsed, is refused, and the refusal
tells that much. How long a run takes and how much memory it uses are not covered.
"""
