"""Sealed kinds beside a release's own; nothing in `privacy` itself needs them. The argument for each is at
the top of its file; in short:

Graphs (`edges.py`). A private graph is read as the set of vertex pairs that its records name: a pair is a
function of one record and of the public vertex set, and a set gains or loses one pair at most by one record
(tables/inputs/edge_list.py).

Single numbers (`column.py`, `blocks.py`, `graph_values.py`). `measure_smooth` draws noise whose scale is a
public multiplier times a smooth bound of how far neighbours move the number; the bound is private, and only
the noisy number leaves. accounting/admissible.py proves which multiplier and beta are private; order.py,
blocks.py and local.py that their bounds are smooth, and at least the true movement, for all rows of one
person (of a graph: one edge). The discrete Cauchy, which OpenDP does not have, is drawn in privacy/noise.py
with whole numbers alone. What somebody's function returns for blocks of rows is brought to within public
bounds; that it looks at its block alone, and tells nobody, is assumed. Hypotheses are about cells of the
domain, never rows.

Questions one by one (`cuts.py`). Each is a cut of the records by public classes of codes, whose cells are a
marginal, and is tested or measured as a whole. Which of the two, against which model and threshold, and at
what price, follows from public facts, from noisy answers and from what tests said: all of it was paid for. A
group of a cut is one cell, so the greatest distance of groups to a model's answers moves by at most k, and
all of them are one test. What is asked from outside may follow from every earlier answer; the sum of charges
is a filter. The journal has each question before its draws, so a session that died resumes with what it said;
a test that died with it is paid for anew.

Counts known beforehand (`sets.py`). Each is the number of rows in a public set, and moves by k at most; so
does its distance to the answer of a model that was made of noisy answers. A selection and a measurement
before each update are charged one by one, and how many there are follows from them.

Sketching (`projected.py`; `workload/projection.py`). A record's key, the text of one cell, has a column of T
signs, by a hash that is drawn without a look at the table and is public. The record adds its column to T
whole numbers, or nothing. Nothing is assumed of the hash, nor that different keys have different columns.
"""
