"""The system calls that a run may make: a list of what is allowed; everything else is answered with an error.

What an ordinary Python program without processes and network needs is on the list: files, memory, time, threads,
signals to its own. Not on it, so refused: sockets (but pairs of connected ones, which asyncio needs), executing
programs, tracing, mounts, namespaces, keys, modules, io_uring, other processes' limits and memory.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import platform
import struct
from collections.abc import Sequence

from . import kernel

# name, number on x86_64, number on aarch64 (- = not there)
ALLOWED = """
read 0 63, write 1 64, open 2 -, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -, lseek 8 62, mmap 9 222,
mprotect 10 226, munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, access 21 -, pipe 22 -, select 23 -, sched_yield 24 124,
mremap 25 216, madvise 28 233, dup 32 23, dup2 33 -, pause 34 -, nanosleep 35 101, getitimer 36 102, alarm 37 -,
setitimer 38 103, getpid 39 172, sendfile 40 71, sendto 44 206, recvfrom 45 207, sendmsg 46 211, recvmsg 47 212,
shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209, exit 60 93,
wait4 61 260, kill 62 129, uname 63 160, fcntl 72 25, flock 73 32, fsync 74 82, fdatasync 75 83, truncate 76 45,
ftruncate 77 46, getdents 78 -, getcwd 79 17, chdir 80 49, fchdir 81 50, rename 82 -, mkdir 83 -, rmdir 84 -,
creat 85 -, link 86 -, unlink 87 -, symlink 88 -, readlink 89 -, chmod 90 -, fchmod 91 52, umask 95 166,
gettimeofday 96 169, getrlimit 97 163, getrusage 98 165, sysinfo 99 179, times 100 153, getuid 102 174,
getgid 104 176, geteuid 107 175, getegid 108 177, getppid 110 173, getpgrp 111 -, getgroups 115 158,
getpgid 121 155, getsid 124 156, rt_sigpending 127 136, rt_sigtimedwait 128 137, sigaltstack 131 132, statfs 137 43,
fstatfs 138 44, gettid 186 178, futex 202 98, sched_getaffinity 204 123, epoll_create 213 -, getdents64 217 61,
set_tid_address 218 96, clock_gettime 228 113, clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94,
epoll_wait 232 -, epoll_ctl 233 21, tgkill 234 131, waitid 247 95, openat 257 56, mkdirat 258 34, newfstatat 262 79,
unlinkat 263 35, renameat 264 38, linkat 265 37, symlinkat 266 36, readlinkat 267 78, fchmodat 268 53,
faccessat 269 48, pselect6 270 72, ppoll 271 73, set_robust_list 273 99, utimensat 280 88, epoll_pwait 281 22,
eventfd2 290 19, epoll_create1 291 20, dup3 292 24, pipe2 293 59, getcpu 309 168, renameat2 316 276,
getrandom 318 278, membarrier 324 283, copy_file_range 326 285, statx 332 291, rseq 334 293, close_range 436 436,
faccessat2 439 439
"""
# Allowed where one argument has one of these values: name, numbers, which argument, values.
ONLY = (
    ("socketpair", 53, 199, 0, (1,)),  # AF_UNIX: a pair is connected to itself alone
    ("prlimit64", 302, 261, 0, (0,)),  # of the calling process
    ("ioctl", 16, 29, 1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),  # is it a terminal; its flags
)
CLONE = {"x86_64": 56, "aarch64": 220}
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NAMESPACES = kernel.NEWNS | kernel.NEWUTS | kernel.NEWIPC | kernel.NEWUSER | kernel.NEWPID | kernel.NEWNET | 0x2000080
THREAD = 0x10000

# Classic BPF: load a word of the call, jump where it equals or has a bit, return a verdict.
LOAD, EQUAL, AT_LEAST, HAS_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
PASS, KILL = 0x7FFF0000, 0x80000000
REFUSE, UNKNOWN = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
NUMBER, MACHINE = 0, 4  # where the call's words lie; argument n is at 16 + 8 n, its low half first


@functools.cache  # made in the warm interpreter, for all runs
def program(machine: str) -> bytes:
    """Return the filter's code for an architecture. Raises OSError for one that it is not written for."""
    if machine not in ARCHITECTURE:
        raise OSError(errno.ENOSYS, f"no filter is written for {machine}; there is one for {', '.join(ARCHITECTURE)}")
    column = list(ARCHITECTURE).index(machine)
    listed = [entry.split() for entry in ALLOWED.split(",")]
    allowed = [int(numbers[column]) for _, *numbers in listed if numbers[column] != "-"]
    code = [
        (LOAD, 0, 0, MACHINE),
        (EQUAL, 1, 0, ARCHITECTURE[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, 0x40000000),  # x86_64 has a second set of numbers there
        (RETURN, 0, 0, UNKNOWN),
    ]
    for one in allowed:
        code += [(EQUAL, 0, 1, one), (RETURN, 0, 0, PASS)]
    for _, *numbers, place, values in ONLY:
        code += when(numbers[column], place, [(EQUAL, value) for value in values], PASS, REFUSE)
    # A thread is a clone with its flag; a process is one without. clone3 hides its flags from a filter: it is
    # unknown here, and the C library then takes clone.
    code += when(CLONE[machine], 0, [(HAS_BIT, NAMESPACES)], REFUSE, None)
    code += when(CLONE[machine], 0, [(HAS_BIT, THREAD)], PASS, REFUSE)
    code.append((RETURN, 0, 0, UNKNOWN))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def when(
    number: int, place: int, tests: Sequence[tuple[int, int]], then: int, otherwise: int | None
) -> list[tuple[int, int, int, int]]:
    """Return instructions for one call: one verdict if a test of an argument holds, else another, or None to go on."""
    last = [] if otherwise is None else [(RETURN, 0, 0, otherwise)]
    body = [(LOAD, 0, 0, 16 + 8 * place)]
    for left, (kind, value) in zip(range(len(tests) - 1, -1, -1), tests, strict=True):
        body.append((kind, left, 0 if left else 1, value))
    body += [(RETURN, 0, 0, then), *last]
    # The number is loaded again, for whoever comes next.
    return [(EQUAL, 0, len(body), number), *body, (LOAD, 0, 0, NUMBER)]


class Filter(ctypes.Structure):
    """The kernel's `sock_fprog`: the number of instructions of eight bytes, and their address."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def install() -> None:
    """Put this process and its threads under the filter, for good. Needs no_new_privs."""
    code = program(platform.machine())
    held = Filter(len(code) // 8, code)
    address = ctypes.addressof(held)
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, address)
