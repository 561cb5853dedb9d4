"""The privacy argument, in prose. The audit boundary is this folder and what it rests on.

What noise costs: accounting/ (unit.py every sensitivity, accountant.py every scale, conversion.py). What
scores and answers are: workload/candidates.py, residual_basis.py and queries/, domain/levels.py,
kernels/counting.py, scoring.py and linear.py. What a row is: tables/delimited.py and kernels/text.py
(records of a text file), source.py, contributions.py and people.py (at most k of a person), parsing.py,
codec.py (values to codes), profile.py, rest.py and broken.py (what learning counts). Where rows are, and
that every place counts the same: backends/. mechanisms/ says what is asked; ledger/ keeps count across
releases and attempts.

What reads private rows: the verbs of `backends.source.Source` (bounded, profile, weighed, broken_rows,
encoded, fingerprint), of `PeopleSource` beside it (people_by_rows, constancy, pairs_alike) and
`Datavectors.exact_counts`. On this machine all go through `Table.batches` alone, for backends/codes.py and
people.py, profile.py, rest.py, contributions.py, codes/broken.py, inputs/people.py and fingerprint.py, and,
NOT PRIVATE, for draft.py, owner/evaluation/ (of `evaluate`) and verifier/. Counts are exact sums over rows
of public functions of each row: order, parts, retries and threads cannot change them, and coarser ones are
exact sums of finer ones.

Neighbours. Two inputs are neighbours when one has the records of one person more (add-remove), or another
person's records in place of one's (replace); a person has at most k. A record of a text file is a line, as it
lies in the file, that is not empty if there are several columns (with `multiline`: what lies between two
line ends outside quotes); of a typed table, a row. `accounting/unit.py` holds every sensitivity that follows.

The door. What the mechanism counts are encoded records: one code for each attribute. Reading is a stable
transformation: inputs that differ in k records become tables of codes that differ in at most k rows, whatever
the bytes of those records are. Proof, step after step:
 1. The header line, and what follows from it (names, separator, line end), is public, and the same for
    neighbours. So is how the text is written, as somebody says. Unpacking gives back the bytes that were
    packed; text of another encoding becomes UTF-8 line by line, for in those that are read no bytes reach
    beyond a line feed (`domain/dialect.py`; of UTF-16, a record is whole pairs of bytes).
 2. `lines`: the text is cut at every line end, wherever quotes stand. A cut needs no more than the bytes of
    the line end itself, so a line more in the file is a line more in the cut, and no other line changes.
    `checked`: the same cut; in a file that is not refused no line ends inside quotes, so that cutting at line
    ends outside quotes gives the same records. `multiline`: by assumption each record was written by a
    conforming writer, so quotes are even inside it, and a scan that begins it outside quotes ends it outside
    quotes: so records are cut one by one, whatever is before them.
 3. Each record is parsed alone: a function of its bytes, of the header and of nothing else, that has a value
    for all bytes (cells that cannot be read, because of their bytes or of the record's width or length, are
    null). Where the block is clean the library parses many at once, with the same result (`delimited._plain`
    says why). A line of JSON is parsed by itself, and names no column. A row of a typed table is its own
    record; a cell that is none of its type is null. What the names of folders say of a row is a cell of it.
 4. With a privacy id, records are grouped by it. A record without one belongs to nobody and is left out; of
    each person the first k are kept (on Spark, by a hash of their own values), which depends on that person's
    records alone. So a person's records, however many, change at most k. Where each person weighs one
    (`people.py`), k are drawn by a hash of the id and of how many records bear it, or of the records' own
    values (people_sql.py, people_spark.py), and a record of a person with n of them counts floor(G / n) times
    at most: a person's records count at most G times, and to whatever is counted here they are at most G
    records of weight one, of at most k values. Where records have an order, the k follow each other, and a
    record has codes of the person's record before, first and last one beside its own: these, too, depend on
    that person's records alone, and weights are as they were.
 5. Each value is encoded alone: a function of the value and of its attribute, with a code for whatever cannot
    be read, is not listed, or is out of range. The attribute is declared, or learnt from noisy answers, and
    so the same for neighbours once those are given.
The file is opened once (of several, the list of them is made once), and looked at before and after every
pass, so that all passes read the same records; where they do not, the run ends before it draws more. Types of
what is released come from the domain and from the types of the columns, not from values. A refusal because a
file is damaged, or because it is not clear where a record of it ends (a quote stays open, a line end of
another kind, a record of more than 8 MB), is not covered: it is told to whoever runs the command, before
anything is spent.

Composition. Every record has a value in every component, so the costs of measurements on different components
ADD. The cells of one marginal are disjoint in records, so a whole marginal costs one sensitivity, however
many cells it has, at whatever level of its attributes: groups of codes are fixed by noisy answers, or by
public sizes, before the marginal is asked for. The accountant knows only addition. What is asked, at what
price and how often may depend on earlier noisy answers; the accountant is a privacy filter, which refuses
whatever would exceed a budget fixed beforehand, and that is sound for epsilon (Rogers, Roth, Ullman, Vadhan
2016) as for approximate zCDP (Whitehouse, Ramdas, Rogers, Wu 2023). A sweep of small marginals after the
rounds is as many measurements, each charged on its own: its list and prices follow from public facts and the
noisy answers before it. That what trees cannot hold corrects answers and rows later is post-processing.

Across releases. Each release of a dataset is entered in its owner's ledger file before the first noise is
drawn: the accountant's first charge reserves the whole budget there, in one transaction with a look at the
cap. `accounting/cap.py` says how releases add up, by a filter again, with limits that are fixed before
anything was seen. No entry is ever taken back. A run that has an id writes every noisy answer to its journal,
and syncs it, before the answer is used (`ledger/journal.py`); the same id again takes the answers from there,
which is post-processing, and draws only what is missing. An answer that did not reach the disk was seen by
nobody, so it is drawn again under the same charge; that assumes that a crash does not depend on what is
drawn.

Selecting. A score compares a true marginal with a model's. The model may be that of an earlier round, and
only some candidates may be on offer (pairs that hold an isolated column, where rounds look for its partner);
which ones is decided by public facts and earlier noisy answers, so given those every score is a fixed
function of the table. It moves by no more than the answers behind it: k or 2 k for a marginal; where
questions of several kinds compete, the largest of their kinds counts for all. A public weight of at most 1
makes a score move less, never more.

Certifying. The rows that will be released are public before they are: a model made of noisy answers, and a
seed. `PrivateErrors.of` seals the distances of the private marginals to those of these rows;
`Session.measure` and `Session.select` read them as they read everything. distances.py has their sensitivity.
The certificate's part of the budget is an accountant of its own (`Accountant.part`), and so is the fit's:
neither can spend what is the other's, and the charges of both are charges of the one that the ledger knows.
Up to r tries are r such pairs of parts, all within the budget that was reserved; which of them is released,
and that none is, follows from noisy numbers that were charged for.

Learning a domain. `discover` reads each column through its profile, how often each value comes, which is
sealed in the statement that makes it. A row has one value, and by it alone one kind, one key at most (its
number, moment or text), one cell at most of a public grid, one multiple of a public list that is the last to
divide its number, and one way at most that its date is written: so votes, counts of values, cells, multiples
and ways are marginals, with their sensitivities. So are the number of rows and a glance, though whether a
text is rare in it is no function of the row alone: a row more adds 1 in one place all the same
(`glance.glance`).
 1. Popular values: the keys are not known beforehand, so a key of one person's may show that it is there. It
    is kept where its noisy count reaches a threshold, with a probability that is charged as delta: l0 = k or
    2 k keys change, each by at most linf = k (Rogers 2023). What is counted is max(c - m, 0) with m public:
    no further from a neighbour's than c itself, and 0 where c is, so l0, linf and L2 are as they were, and
    a key that only one of two neighbours has above m has a count of at most k there. Were m taken from the
    table, all counts would move at once. In the second look (`popular_together`) each row has one weight,
    which it shares among the values that it holds and no answer before named: a function of that row and of
    noisy answers, so a person's k rows add a vector at most k weights long, none of it below 0, to k c keys.
    Values of public lists, which follow from what was found, are counted without a threshold in the same
    reading: their keys are the same for neighbours, so they need no delta, and what a person changes in them
    and in the others together is what was charged (`popular_together`).
 2. What is left: cells and multiples leave out the values that were *found* popular, by the noisy answer,
    never those that are popular; so given the answers before it is a histogram of a fixed part of the values.
    The finer grid is made of the coarse one's noisy counts.
    In the look at single values (`single_values`) each row shares one weight among the cells of one value
    that it lies in, in all columns that have such: as in `popular_together`, but all cells are public, and
    get noise, so there is no threshold and no delta. Its second look is at cells that follow from the first.
 3. Reuse: first domain, bins, pruning and averages of two noisy counts of the same value are functions of
    noisy answers and public facts. That counts were selected by their size costs nothing more, for their
    release was paid for as a whole; it costs accuracy alone, see `with_popular`. `Session.recode` maps codes
    to codes row by row, by a public table: rows that differ in k rows before differ in at most k after.
 4. Ending early (`NothingLearnt`) follows from noisy answers, too, and so do its words.
 5. Of people, who count one each: how many have up to so many rows, and of how many a column is the same in
    all rows, are numbers of people, with proofs in `privacy/people.py`; which columns are taken to be so, and
    how many rows are used, follow from the noisy numbers.
 6. What one column says of another: how many rows break it, or how many a table of two columns would get
    wrong, moves by at most 1 a row, with proofs in `privacy/functions.py`. Which columns are asked about
    follows from names, types and the noisy answers before; which rules the domain gets from the noisy
    numbers, and what is then computed from drawn rows reads no others.
 7. What is a value's unit, and which of two spellings are the same, is a function of that value and of the
    column's type; no value, however large or odd, ends the reading or is warned about. The order of keys is
    the table's, and so none that is handed on: what is kept is sorted.

Testing. Whether a true answer lies further from the model's than a public threshold is asked of one query
after another, for one charge, until it says yes (`Session.begin`, `Session.exceeds`: sparse vector). The
noise on the threshold stays inside `NoisyThreshold`, where nobody can read it, and is in no journal; what a
test said is. A test whose process died is over, and the next is paid for.

Reading. Private numbers lie in `Sealed` objects, the rows as codes among them; each kind is made by its own
`of`, which looks at other sealed contents and gives something sealed, nothing else. `SealedQuery` is what is
public of a question: what it is about, and the norms of what one person changes in its answers.
`Session._unseal` is the one way in; it charges the accountant first (`_unseal_again`, for `Session.exceeds`
alone, finds the charge that was made when the test began). `Session.select` and `Session.measure`, the parts
of `discover` (`glance`, `count_rows`, `read_votes`, `vote_on_dates`, `vote_on_beside`, `vote_on_digits`,
`is_rare`, `ColumnDiscovery.popular`, `ColumnDiscovery.rounded`, `ColumnDiscovery.histogram`, `single_values`,
`popular_together`), `measure_residuals`, `measure_smooth` and `measure_by_laplace` are its only callers.
Their answers carry noise from `noise.py`, the only module that draws. What is not needed for a release is
argued in `privacy/other/__init__.py`.

Post-processing. Everything else, the update, the plan, sampling, the manifest, sees only noisy answers and
public facts: the names and types of columns, the domain, the workload, the policy. It costs nothing.

Limits. The names and types of the input's columns count as public, so a data frame whose types depend on its
values (one gap turns pandas integers into floats) should be given a fixed schema. That an input can be read
counts as public, too. How long a run takes and how much memory it uses are not covered. assumptions.py says
all that in the manifest, each point with whether the program made sure of it.
"""
