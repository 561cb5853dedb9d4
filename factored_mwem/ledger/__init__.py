"""What is kept across releases: the ledger file, the journal of a run, and how a run goes on."""
