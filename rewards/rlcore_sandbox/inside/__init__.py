"""What runs in the warm, sealed interpreter and its children. Standard library only, and imports among themselves are
relative: the package is imported there as `inside`, without the rest of rlcore.
"""

LAYERS = ("user", "mount", "pid", "network", "ipc", "uts", "privileges", "seccomp")
"""What walls a run in besides the limits, which are there everywhere. `mount` holds the read-only root folder and the
private /tmp; `privileges` is no_new_privs and no capabilities; those before it are namespaces."""
