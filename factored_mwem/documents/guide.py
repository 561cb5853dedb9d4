"""Guide: the pages for users beyond the README, as Markdown inside the package.

>>> from factored_mwem.documents.guide import page
>>> page("ledger").splitlines()[0]
'# A budget that cannot be overspent'
"""

from __future__ import annotations

from importlib.resources import files

from factored_mwem.errors import InputError, did_you_mean

TOPICS = {
    "guarantee": "what is promised to each person, what it rests on, and how to check it",
    "domain": "which values may appear: the ways to say so, and how to declare them",
    "draft": "a domain drafted from the data, for you to review: what you must decide",
    "people": "a person has several rows: each weighs one, and rows come out as people",
    "order": "rows of a person in order: which value follows which, and how much time lies between",
    "tables": "several tables that belong together: keys whole, one promise, one command",
    "rules": "public rules that relate columns, kept in every released row",
    "learning": "a table without a declared domain: what is learnt, at what cost, and once for many releases",
    "workloads": "what must come out right: marginals, labels, cubes, ranges, parities",
    "planning": "compare epsilons before any is spent, or find the epsilon for an error",
    "certificate": "how far off the released rows are, measured inside the budget, or refusing a release",
    "answers": "queries of a release, with error bars: free, from the model file alone",
    "questions": "what can be asked of a release, in words or in SQL, and how answers name what they mean",
    "counted": "of a release of people: counts of people, of rows, and per person, with error bars",
    "condition": "rows that meet a condition, or complete known ones; columns known from a public table",
    "graph": "a private list of edges: a synthetic graph, and cuts with error bars",
    "statistic": "one number from a private table: medians, means, any function of blocks, graphs, rules",
    "ask": "questions about the private table one by one, each answered within a bound",
    "sketch": "counts of any keys, such as URLs: a file that answers with error bars, paid for once",
    "report": "pages about a release for everybody and for lawyers, evidence to sign, a page for the owner",
    "attack": "what attackers learn of single people from releases like yours, beside what was promised",
    "ledger": "one budget for all releases of a table, and runs that pay once",
    "reach": "tables of any size, read where they are: streams, standard input, databases",
    "spark": "tables read by a Spark cluster, and rows drawn by it",
    "inputs": "files, folders, stores and URIs, compression, and how text is written",
    "jobs": "unattended jobs: run ids, retries, exit codes, orchestrators, the log",
    "card": "records of a release for catalogues: registry, Croissant, data package, contract",
    "python": "Python, data frames, and every option",
    "how-it-works": "from the table to the rows, step by step",
    "accuracy": "measured errors, also compared with other programs",
    "speed": "what commands cost in time and memory, also compared with other programs",
    "raw": "ten raw files as strangers bring them: errors with a learnt domain and with a drafted one",
    "choose": "which tool suits which task: this one, OpenDP, Tumult, SmartNoise, SDV, dpsynth, private-pgm",
    "papers": "where the ideas come from, and the MWEM paper's figures again",
}
"""The pages in reading order, each with a line that says what is in it."""


def page(topic: str) -> str:
    """The Markdown of a page. Raises InputError, which lists all topics, if there is no such page."""
    if topic not in TOPICS:
        close = did_you_mean(topic, TOPICS)
        raise InputError(f"the guide has no page {topic!r}{close}; it has {', '.join(TOPICS)}")
    return files("factored_mwem").joinpath("guide", f"{topic}.md").read_text(encoding="utf-8")
