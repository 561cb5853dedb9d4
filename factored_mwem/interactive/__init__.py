"""Answers to queries asked one by one: a model answers what it knows well enough, the rest is measured.

construction        what a hypothesis is: it answers, it is updated, and it says how often that can happen
constructions       multiplicative weights, Frieze and Kannan's, the median mechanism's
sequence            whether a list of updates is one that the theorems speak of
"""
