"""What is kept across releases: the ledger, the journal of a run, and how a run is resumed."""
