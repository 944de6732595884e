"""The walls around a run, in the order in which they go up, and those around the warm interpreter."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import platform
import resource
import signal
import stat
import sys
from typing import Any

from . import kernel, seccomp

NAMESPACES = {
    "user": kernel.NEWUSER,
    "mount": kernel.NEWNS,
    "pid": kernel.NEWPID,
    "network": kernel.NEWNET,
    "ipc": kernel.NEWIPC,
    "uts": kernel.NEWUTS,
}
LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/zoneinfo")
FILES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/etc/ld.so.cache", "/etc/localtime")
TEMPORARY = "/tmp"


def missing_layers(visible: list[str]) -> dict[str, str]:
    """Return which layers this machine does not give, and why, each tried in a child of its own."""
    missing: dict[str, str] = {}

    def attempt(layer: str, function: Any) -> None:
        reason = kernel.failure_in_child(function)
        if reason is not None:
            missing[layer] = reason

    for layer in NAMESPACES:  # a user namespace comes first: the others may need it
        attempt(layer, lambda layer=layer: check_namespace(layer, ({"user"} - set(missing)) | {layer}, visible))
    attempt("privileges", drop_privileges)
    attempt("seccomp", lambda: seal([], {"privileges", "seccomp"}))
    return missing


def check_namespace(layer: str, layers: set[str], visible: list[str]) -> None:
    """Enter namespaces and check that one of them is new. Raises OSError if it is not."""
    proc = os.open("/proc/self/ns", os.O_PATH | os.O_DIRECTORY)
    name = {"mount": "mnt", "network": "net", "pid": "pid_for_children"}.get(layer, layer)
    before = os.readlink(name, dir_fd=proc)
    enter(layers, visible)
    if layer == "mount" and (
        set(os.listdir("/")) & {"old", "proc"} or not os.statvfs("/").f_flag & os.ST_RDONLY  # noqa: PTH208
    ):
        raise OSError(errno.EPERM, "the root folder is not the one that was made")
    if layer == "pid":
        child = os.fork()  # the namespace has a name once it has a process
        if child == 0:
            os._exit(os.getpid() != 1)
        if os.waitpid(child, 0)[1]:
            raise OSError(errno.EPERM, "a process is not the first of its pid namespace")
    elif os.readlink(name, dir_fd=proc) == before:
        raise OSError(errno.EPERM, "the kernel gave no new namespace")


def enter(layers: set[str], visible: list[str]) -> None:
    """Put this process into namespaces of its own, and its root folder to what a solution may see.

    As root the root folder is made before root is given up, since nobody cannot reach a Python under /root.
    """
    proc = os.open("/proc/self", os.O_PATH | os.O_DIRECTORY) if "user" in layers else -1
    administrator = bool(kernel.capabilities()[0] >> kernel.CAP_SYS_ADMIN & 1)
    if administrator and "user" in layers:
        if "mount" in layers:
            kernel.unshare(kernel.NEWNS)
            make_root(visible)
        kernel.become_nobody()
    if "user" in layers:
        user, group = os.geteuid(), os.getegid()
        kernel.unshare(kernel.NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(os.open(name, os.O_WRONLY, dir_fd=proc), "w") as file:  # noqa: PTH123 - by descriptor
                file.write(text)
        os.close(proc)
    others = [flag for layer, flag in NAMESPACES.items() if layer in layers and layer != "user"]
    kernel.unshare(sum(others))
    if "mount" in layers and not (administrator and "user" in layers):
        make_root(visible)


def make_root(visible: list[str]) -> None:
    """Change to a new, read-only root folder: the libraries of Python and the system, a few devices, and /tmp."""
    kernel.mount("", "/", "", kernel.REC | kernel.PRIVATE)
    kernel.mount("tmpfs", TEMPORARY, "tmpfs", kernel.NOSUID | kernel.NODEV, "mode=755,size=1m")
    old = f"{TEMPORARY}/old"
    os.mkdir(old)  # noqa: PTH102
    number = kernel.PIVOT_ROOT[platform.machine()]
    kernel.call_libc("syscall", ctypes.c_long(number), os.fsencode(TEMPORARY), os.fsencode(old))
    os.chdir("/")
    os.mkdir(TEMPORARY, 0o777)  # noqa: PTH102
    for path in (*LIBRARIES, *FILES, *visible):
        show(path)
    for folder in hidden_folders(visible):
        kernel.mount("tmpfs", folder, "tmpfs", kernel.RDONLY | kernel.NOSUID | kernel.NODEV, "mode=755,size=4k")
    kernel.call_libc("umount2", b"/old", kernel.DETACH)  # also where something still has files open
    os.rmdir("/old")  # noqa: PTH106
    kernel.mount("", "/", "", kernel.REMOUNT | kernel.BIND | kernel.RDONLY | kernel.NOSUID | kernel.NODEV)


def show(path: str) -> None:
    """Make a file or folder of the old root visible in the new one, links as links."""
    source = f"/old{path}"
    if os.path.lexists(path) or not os.path.lexists(source):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        target = os.readlink(source)  # noqa: PTH115
        os.symlink(target, path)  # noqa: PTH211
        show(os.path.normpath(os.path.join(os.path.dirname(path), target)))  # noqa: PTH118, PTH120
    elif stat.S_ISDIR(mode):
        os.mkdir(path)  # noqa: PTH102
        kernel.bind_read_only(source, path)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
        kernel.bind_read_only(source, path)


def hidden_folders(visible: list[str]) -> list[str]:
    """Return the folders of installed packages inside of what is shown, without those that were asked for."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120
    # Of other Pythons too, which may lie in the same folder.
    libraries = {library, "/usr/lib/python3", *glob.glob(f"{os.path.dirname(library)}/python3*")}  # noqa: PTH120, PTH207
    folders = [f"{one}/{kind}-packages" for one in sorted(libraries) for kind in ("site", "dist")]
    return [folder for folder in folders if folder not in visible and os.path.isdir(folder)]  # noqa: PTH112


def default_visible() -> list[str]:
    """Return the folders of this Python's own library."""
    libraries = [os.path.dirname(os.__file__)]  # noqa: PTH120
    libraries += [folder for folder in sys.path if folder.endswith("lib-dynload")]
    shared = os.path.join(sys.base_prefix, "lib")  # noqa: PTH118 - where libpython may be
    return [shared, *libraries] if sys.base_prefix != "/usr" else libraries


def surround(limits: dict[str, int], layers: set[str], stage: list[str]) -> None:
    """Put every wall around this process, a child of the sealed interpreter. `stage` names the one being put up."""
    inner = [layer for layer in ("mount", "network", "ipc", "uts") if layer in layers]
    stage.append("namespaces")
    kernel.unshare(sum(NAMESPACES[layer] for layer in inner))
    if "mount" in layers:
        stage.append("mount")
        size = f"mode=777,size={limits['tmp_bytes']},nr_inodes={limits['tmp_files']}"
        shown = os.open(TEMPORARY, os.O_PATH | os.O_DIRECTORY)
        kernel.mount("tmpfs", TEMPORARY, "tmpfs", kernel.NOSUID | kernel.NODEV | kernel.NOEXEC, size)
        room = os.statvfs(TEMPORARY)
        if room.f_blocks * room.f_frsize > limits["tmp_bytes"] + room.f_frsize:
            raise OSError(errno.EPERM, "/tmp is larger than it may be")
        show_again(shown)
        os.chdir(TEMPORARY)
    stage.append("user")
    if "user" in layers:
        # Without a map: it has no user here, and no namespace above is its own.
        kernel.unshare(kernel.NEWUSER)
    else:
        leave_root()
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user would have cleared it
    stage.append("limits")
    set_limits(limits)
    seal(stage, layers)


def show_again(covered: int) -> None:
    """Show what the private /tmp covers: a Python or packages that are installed below /tmp. Closes the folder."""
    os.fchdir(covered)  # from here what is covered can be named, and from nowhere else
    os.close(covered)
    for name in os.listdir():  # noqa: PTH208
        os.mkdir(f"{TEMPORARY}/{name}")  # noqa: PTH102
        kernel.mount(name, f"{TEMPORARY}/{name}", "", kernel.BIND | kernel.REC)


def leave_root() -> None:
    """Become nobody if this process is root and may: the second best where there is no user namespace."""
    if os.geteuid() == 0:
        with contextlib.suppress(OSError):
            kernel.become_nobody()


def set_limits(limits: dict[str, int]) -> None:
    """Set the limits that the kernel keeps."""
    for kind, value in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_FSIZE, limits["output_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_NPROC, limits["tasks"]),
        (resource.RLIMIT_STACK, limits["stack_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        lower(kind, value, value)
    # The first signal can be caught, the second, a second later, cannot.
    lower(resource.RLIMIT_CPU, limits["cpu_seconds"], limits["cpu_seconds"] + 1)


def lower(kind: int, soft: int, hard: int) -> None:
    """Set a limit, never above what this process has."""
    _, has = resource.getrlimit(kind)
    if has != resource.RLIM_INFINITY:
        soft, hard = min(soft, has), min(hard, has)
    resource.setrlimit(kind, (soft, hard))


def seal(stage: list[str], layers: set[str]) -> None:
    """Give up every privilege, and every system call that is not on the list."""
    if "privileges" in layers:
        stage.append("privileges")
        drop_privileges()
    if "seccomp" in layers:
        stage.append("seccomp")
        seccomp.install()
        # Harmless where it is allowed: is the filter there?
        try:
            kernel.unshare(0)
        except OSError:
            return
        raise OSError(errno.EPERM, "the filter of system calls does not filter")


def drop_privileges() -> None:
    """Give up every capability, for this process and for any program that would give one."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.call_libc("capset", (ctypes.c_uint32 * 2)(kernel.CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)())
    if any(kernel.capabilities()) or not kernel.prctl(kernel.PR_GET_NO_NEW_PRIVS):
        raise OSError(errno.EPERM, "privileges are still there")
