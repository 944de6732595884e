"""The few system calls that Python 3.11 does not offer: namespaces, mounts, capabilities, prctl. Linux only."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, NOEXEC, REMOUNT, NOATIME, NODIRATIME = 1, 2, 4, 8, 32, 1024, 2048
BIND, REC, PRIVATE, RELATIME = 4096, 16384, 1 << 18, 1 << 21
DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 1, 4, 22, 38, 39
CAP_SYS_ADMIN = 21
CAPABILITY_VERSION = 0x20080522
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
NOBODY = 65534

# statvfs has its own numbers for what mount calls the same.
KEPT = {1: RDONLY, 2: NOSUID, 4: NODEV, 8: NOEXEC, 1024: NOATIME, 2048: NODIRATIME, 4096: RELATIME}

libc = ctypes.CDLL(None, use_errno=True)


def call_libc(name: str, *arguments: object) -> int:
    """Return the result of a function of the C library. Raises OSError with its name where that is -1."""
    result: int = getattr(libc, name)(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Leave the namespaces of these kinds for new ones (a new pid namespace begins with the next child)."""
    call_libc("unshare", flags)


def prctl(option: int, *arguments: int) -> int:
    """Set or ask a property of this process."""
    return call_libc("prctl", option, *(ctypes.c_ulong(one) for one in (*arguments, *[0] * (4 - len(arguments)))))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system, or with BIND a file or folder."""
    encoded = (os.fsencode(one) for one in (source, target, kind))
    call_libc("mount", *encoded, ctypes.c_ulong(flags), os.fsencode(options))


def bind_read_only(source: str, target: str) -> None:
    """Show a file or folder at another place, read-only and without what its own mount forbids."""
    mount(source, target, "", BIND | REC)
    # In a user namespace the flags of the source are locked: leaving one out would be refused.
    has = os.statvfs(target).f_flag
    kept = sum(flag for bit, flag in KEPT.items() if has & bit)
    mount("", target, "", REMOUNT | BIND | RDONLY | NOSUID | kept)


def capabilities() -> tuple[int, int, int]:
    """Return the effective, permitted and inheritable capabilities of this process, as bit masks."""
    header, data = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    call_libc("capget", header, data)
    return tuple(data[kind] | data[kind + 3] << 32 for kind in range(3))  # type: ignore[return-value]


def become_nobody() -> None:
    """Take the user and group of nobody, for good, and stay readable in /proc for the maps of a user namespace."""
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    prctl(PR_SET_DUMPABLE, 1)


def failure_in_child(attempt: Callable[[], None]) -> str | None:
    """Return why an attempt fails, made in a child so that it changes nothing here; None if it succeeds."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        reason = ""
        try:
            attempt()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is reported to the parent
            reason = f"{type(error).__name__}: {error}"
        os.write(writable, reason.encode(errors="replace")[:4000] or b"\0")
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        reported = pipe.read()
    _, status = os.waitpid(child, 0)
    if reported == b"\0":
        return None
    return reported.decode(errors="replace") or f"the attempt ended with status {status}"
