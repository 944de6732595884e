"""Numbers that must not move while code is redrawn: recorded on one state, compared on another.

    python -m tests.numbers record FILE [--default-run]
    python -m tests.numbers compare FILE [--renames docs/renames.json] [--default-run] [--only WORD]

Run from the repository's root; it is no part of the tests.
"""
