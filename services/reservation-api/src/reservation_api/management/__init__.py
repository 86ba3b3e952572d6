"""Management of restaurants, agencies and people. Every change is recorded in the same transaction."""
