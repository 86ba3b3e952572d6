"""Measures every hop and its raw ceiling in one run: `make bench`, or `make bench ONLY=relay`."""
