"""Solutions that reach for the kernel, for other processes, or for more than their share.

Each solves `double` of `attempts` only where it got what it reached for.
"""

CALL = """
import ctypes, os, errno
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *given):
    return libc.syscall(ctypes.c_long(number), *(ctypes.c_long(one) if isinstance(one, int) else one for one in given))
parent = os.getppid()
buffer = ctypes.create_string_buffer(1 << 16)
"""

# Numbers of x86_64 and arguments; on another machine they are other calls, which the list refuses or which do nothing.
REACHES = {
    "ptrace, attach": "call(101, 16, parent, 0, 0) == 0",
    "ptrace, seize": "call(101, 0x4206, parent, 0, 0) == 0",
    "ptrace, me": "call(101, 0, 0, 0, 0) == 0",
    "process_vm_readv": "call(310, parent, buffer, 1, buffer, 1, 0) >= 0",
    "process_vm_writev": "call(311, parent, buffer, 1, buffer, 1, 0) >= 0",
    "pidfd_open": "call(434, parent, 0) >= 0",
    "pidfd_getfd": "call(438, 0, 0, 0) >= 0",
    "pidfd_send_signal": "call(424, 0, 9, None, 0) == 0",
    "kcmp": "call(312, parent, os.getpid(), 0, 0, 0) >= 0",
    "io_uring_setup": "call(425, 8, buffer) >= 0",
    "io_uring_enter": "call(426, 0, 1, 0, 0, None, 0) >= 0",
    "userfaultfd": "call(323, 1) >= 0",
    "bpf": "call(321, 0, buffer, 64) >= 0",
    "perf_event_open": "call(298, buffer, 0, -1, -1, 0) >= 0",
    "keyctl": "call(250, 0, -3, 1) >= 0",
    "add_key": "call(248, b'user', b'a', b'b', 1, -3) >= 0",
    "memfd_create": "call(319, b'a', 0) >= 0",
    "memfd_secret": "call(447, 0) >= 0",
    "execve": "call(59, b'/lib64/ld-linux-x86-64.so.2', None, None) == 0",
    "execveat": "call(322, 0, b'', None, None, 0x1000) == 0",
    "setns": "call(308, 0, 0) == 0",
    "unshare": "any(call(272, kind) == 0 for kind in (0, 0x20000, 0x10000000, 0x20000000, 0x40000000, 0x400))",
    "clone3": "call(435, buffer, 88) > 0",
    "clone, a process": "call(56, 17, 0, 0, 0, 0) > 0",
    "clone, a sibling": "call(56, 17 | 0x8000, 0, 0, 0, 0) > 0",
    "clone, untraced with new time": "call(56, 0x80 | 0x10000, 0, 0, 0, 0) > 0",
    "fork": "call(57) > 0",
    "vfork": "call(58) > 0",
    "mount": "call(165, b'none', b'/tmp', b'proc', 0, None) == 0",
    "umount": "call(166, b'/tmp', 2) == 0 or call(166, b'/lib', 0) == 0",
    "open_tree": "call(428, -100, b'/', 1) >= 0",
    "move_mount": "call(429, -100, b'/lib', -100, b'/tmp', 0) == 0",
    "fsopen": "call(430, b'proc', 0) >= 0",
    "mount_setattr": "call(442, -100, b'/', 0, buffer, 32) == 0",
    "pivot_root": "call(155, b'/tmp', b'/tmp') == 0",
    "chroot": "call(161, b'/tmp') == 0",
    "chown": "call(92, b'/tmp', 0, 0) == 0 and os.stat('/tmp').st_uid == 0",
    "mknod": "call(133, b'/tmp/disk', 0o60666, 0x800) == 0 or call(259, -100, b'/tmp/d', 0o20666, 0x101) == 0",
    "setxattr": "call(188, b'/tmp', b'user.a', b'b', 1, 0) == 0",
    "open_by_handle_at": "call(304, 0, buffer, 0) >= 0",
    "quotactl": "call(179, 0x800001, b'/', 0, buffer) == 0",
    "a socket of any family": "any(call(41, family, kind, 0) >= 0 for family in range(46) for kind in (1, 2, 3, 5))",
    "a pair of another family": "any(call(53, family, 1, 0, buffer) >= 0 for family in range(46) if family != 1)",
    "bind, listen, connect": "any(call(one, 3, buffer, 16) == 0 for one in (49, 50, 42))",
    "setsockopt": "call(54, 3, 1, 7, buffer, 4) == 0",
    "setuid": "call(105, 0) == 0 or call(117, 0, 0, 0) == 0",
    "capset": "call(126, buffer, buffer) == 0",
    "prctl": "call(157, 38, 0, 0, 0, 0) == 0 or call(157, 1, 0, 0, 0, 0) == 0 or call(157, 4, 1, 0, 0, 0) == 0",
    "seccomp": "call(317, 1, 0, buffer) == 0",
    "personality": "call(135, 0x0400000) >= 0",
    "modify_ldt": "call(154, 0, buffer, 64) >= 0",
    "iopl": "call(172, 3) == 0 or call(173, 0, 1, 1) == 0",
    "modules": "call(313, 0, b'', 0) == 0 or call(175, buffer, 1, b'') == 0 or call(246, 0, 0, 0, 0, 0) == 0",
    "reboot, swap, clock, names": "any(call(one, buffer, 1) == 0 for one in (167, 168, 169, 170, 171, 227, 159, 305))",
    "syslog": "call(103, 3, buffer, 4096) >= 0",
    "System V memory": "call(29, 0, 4096, 0o1777) >= 0 or call(64, 0, 1, 0o1777) >= 0 or call(68, 0, 0o1777) >= 0",
    "message queues": "call(240, b'a', 0o100 | 2, 0o600, None) >= 0",
    "nice": "call(141, 0, 0, -20) == 0 or call(144, 0, 1, buffer) == 0 or call(251, 1, 0, 0) == 0",
    "a process group of another": "call(109, parent, 0) == 0 or call(112) >= 0",
    "affinity": "call(203, parent, 8, b'\\x01' + bytes(7)) == 0 or call(256, parent, 8, buffer, buffer) >= 0",
    "limits of another": "call(302, parent, 9, None, buffer) == 0",
    "limits raised": "call(302, 0, 0, ctypes.create_string_buffer(b'\\xff' * 16, 16), None) == 0",
    "limits raised by the old call": "call(160, 0, ctypes.create_string_buffer(b'\\xff' * 16, 16)) == 0",
    "timers": "call(222, 0, None, buffer) == 0 or call(283, 1, 0) >= 0",
    "inotify, fanotify, signalfd": "call(294, 0) >= 0 or call(300, 0, 0) >= 0 or call(289, -1, buffer, 8, 0) >= 0",
    "vmsplice, splice, tee": "any(call(one, 0, buffer, 1, 0, 1, 0) >= 0 for one in (278, 275, 276))",
    "numbers of x32": "any(call(0x40000000 | one, 0) not in (-1, -38) for one in (39, 41, 101, 272, 520, 521))",
    "numbers with a high half": "call(0x100000000 | 41, 1, 1, 0) >= 0 or call(-1 << 32 | 272, 0) == 0",
    "ioctl with a high half": "call(16, 0, 0x100005412, b'x') == 0 or call(16, 0, 0x5412, b'x') == 0",
    "landlock, rseq, membarrier of others": "call(444, None, 0, 1) >= 0 or call(448, parent, 0) >= 0",
    "memory of numa, pages moved": "call(279, parent, 1, buffer, None, buffer, 0) >= 0 or call(237, 0, 4096, 2) == 0",
    "locked memory": "call(149, buffer, 4096) == 0 or call(151, 3) == 0",
    "process_madvise": "call(440, 0, buffer, 1, 21, 0) >= 0",
    "huge pages": "libc.mmap(0, 1 << 21, 3, 0x40022, -1, 0) != -1",
    "/proc": "os.path.exists('/proc') or os.path.exists('/sys') or os.path.exists('/run')",
    "devices of memory": "any(os.path.exists(f'/dev/{one}') for one in ('mem', 'kmem', 'kmsg', 'shm', 'ptmx', 'fuse'))",
    "other data": "any(os.path.exists(one) for one in ('/work', '/var', '/etc/passwd', '/mnt', '/root/.bashrc'))",
    "a hard link to what it may read": "call(86, os.__file__.encode(), b'/tmp/os.py') == 0",
    "changes of what it may read": "any(call(one, os.__file__.encode(), 0) == 0 for one in (90, 76))",
    "times of what it may read": "call(280, -100, os.__file__.encode(), None, 0) == 0",
    "programs in /tmp": "call(21, b'/tmp', 0) and call(9, 0, 4096, 4, 2, os.open('/tmp/a', 66), 0) > 0",
    "its parent stopped": "os.kill(parent, 19) is not None",
    "a signal by a descriptor": """(
        __import__('fcntl').fcntl(3, 8, parent), __import__('fcntl').fcntl(3, 10, 9),
        __import__('fcntl').fcntl(3, 4, 0o20000)) and False""",
    "a system call of 32 bits": """(
        __import__('mmap'), call(9, 0x20000000, 4096, 7, 0x32, -1, 0) == 0x20000000, ctypes.memmove(
            0x20000000, b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3', 8
    )) and ctypes.CFUNCTYPE(ctypes.c_int)(0x20000000)() > 0""",
}
REACHES = {
    name: f"{CALL}def double(x):\n    if {reach}:\n        return x + x\n    return None\n"
    for name, reach in REACHES.items()
}

RARE = {
    *("ptrace, seize", "ptrace, me", "process_vm_writev", "pidfd_send_signal", "kcmp", "io_uring_enter", "add_key"),
    *("memfd_secret", "execveat", "clone, a sibling", "vfork", "umount", "open_tree", "move_mount", "fsopen"),
    *("mount_setattr", "pivot_root", "setxattr", "open_by_handle_at", "quotactl", "bind, listen, connect", "seccomp"),
    *("setsockopt", "capset", "personality", "modify_ldt", "iopl", "reboot, swap, clock, names", "syslog", "nice"),
    *("System V memory", "message queues", "a process group of another", "affinity", "limits raised by the old call"),
    *("timers", "inotify, fanotify, signalfd", "vmsplice, splice, tee", "landlock, rseq, membarrier of others"),
    *("memory of numa, pages moved", "locked memory", "process_madvise", "huge pages", "userfaultfd", "keyctl"),
}
"""Refused as their like are that are not in this list."""
