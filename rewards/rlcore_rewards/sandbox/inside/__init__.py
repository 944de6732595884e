"""What runs in the warm, sealed interpreter and its children. Standard library only, and imports among themselves are
relative: the package is imported there as `inside`, without the rest of rlcore.
"""
