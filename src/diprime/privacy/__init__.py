"""Privacy, knowing nothing of trees: measures, the ledger, random bits and mechanisms."""
