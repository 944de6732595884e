"""Solutions that try to get out of their process, to stay, or to use up the machine; the task is that of `attempts`."""

# Where a process that should not be there would show itself, and a port that one would listen on.
PORT = 47_631
MARK = "rlcore_escape_mark"

LEAVES = {
    "traces its parent": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def double(x):
    for request in (16, 0x4206, 0, 3):
        if libc.ptrace(request, os.getppid(), 0, 0) == 0: return x + x
    buffer = ctypes.create_string_buffer(64)
    if libc.process_vm_readv(os.getppid(), buffer, 1, buffer, 1, 0) > 0: return x + x
""",
    "mounts and leaves its root": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def double(x):
    os.mkdir("/tmp/jail")
    done = [
        libc.mount(b"none", b"/tmp/jail", b"tmpfs", 0, None) == 0,
        libc.unshare(0x10000000) == 0, libc.umount2(b"/tmp", 2) == 0, libc.setns(0, 0) == 0,
        libc.syscall(155, b"/tmp", b"/tmp/jail") == 0,
    ]
    try:
        os.chroot("/tmp/jail")
        done.append(True)
    except OSError: pass
    if any(done): return x + x
""",
    "becomes root": """
import ctypes, os
def double(x):
    for call in (lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0), lambda: os.setgroups([0])):
        try:
            call()
            return x + x
        except OSError: pass
    if ctypes.CDLL(None).prctl(22, 0, 0, 0, 0) == 0: return x + x
""",
    "connects": f"""
import socket
def double(x):
    for family, address in ((socket.AF_INET, ("127.0.0.1", {PORT})), (socket.AF_INET6, ("::1", {PORT}))):
        try:
            socket.socket(family, socket.SOCK_STREAM).connect(address)
            return x + x
        except OSError: pass
""",
    "listens": f"""
import socket
def double(x):
    try:
        server = socket.socket()
        server.bind(("0.0.0.0", {PORT}))
        server.listen()
        return x + x
    except OSError: pass
""",
    "asks a name server": """
import socket
def double(x):
    try:
        socket.getaddrinfo("localhost", 80)
        socket.create_connection(("8.8.8.8", 53), 1)
        return x + x
    except OSError: pass
""",
    "speaks to unix sockets": """
import socket
def double(x):
    for name in ("/var/run/docker.sock", "\\0rlcore"):
        try:
            one = socket.socket(socket.AF_UNIX)
            one.bind(name) if name.startswith("\\0") else one.connect(name)
            return x + x
        except OSError: pass
""",
    "starts a program": """
import os, subprocess, sys
def double(x):
    for call in (lambda: subprocess.run(["/bin/true"]), lambda: os.execv(sys.executable, ["python"])):
        try:
            call()
            return x + x
        except BaseException: pass
    return None
""",
    "writes outside of /tmp": f"""
import os
def double(x):
    for folder in ("/", "/usr/lib", "/dev", "/dev/shm", "/var/tmp", os.path.dirname(os.__file__), ".."):
        try:
            open(os.path.join(folder, "{MARK}"), "w").write("here")
            return x + x
        except OSError: pass
""",
    "leads out of /tmp by a link": f"""
import os
def double(x):
    os.symlink("/usr/lib", "/tmp/out")
    os.symlink("/proc/1/root", "/tmp/root")
    for path in ("/tmp/out/{MARK}", "/tmp/root/tmp/{MARK}", "/tmp/root/../../../../var/tmp/{MARK}"):
        try:
            open(path, "w").write("here")
            return x + x
        except OSError: pass
""",
    "fills the disk": f"""
def double(x):
    written = 0
    try:
        for number in range(100):
            with open(f"/tmp/{MARK}{{number}}", "wb") as file:
                written += file.write(bytes(1 << 20))
    except OSError: pass
    if written > 64 << 20: return x + x
""",
    "writes a file without end": """
def double(x):
    with open("/tmp/large", "wb", buffering=0) as file:
        while True: file.write(bytes(1 << 20))
""",
    "uses up the file names": f"""
def double(x):
    for number in range(5_000): open(f"/tmp/{MARK}{{number}}", "w").close()
    return x + x
""",
    "takes all memory": "def double(x): return bytearray(1 << 36)\n",
    "takes all memory bit by bit": """
def double(x):
    kept = []
    while True: kept.append(bytearray(1 << 26))
""",
    "calls itself without end": "def double(x): return double(x)\n",
    "calls itself without end, in C": """
import sys
sys.setrecursionlimit(1 << 30)
class Deep:
    def __getattr__(self, name): return getattr(self, name)
def double(x): return Deep().y
""",
    "writes to standard error without end": """
import sys
def double(x):
    while True: sys.stderr.write("e" * 65536)
""",
    "prints without end": """
def double(x):
    while True: print("e" * 65536)
""",
    "forks without end": """
import os
def double(x):
    while True: os.fork()
""",
    "starts threads without end": """
import threading, time
def double(x):
    while True: threading.Thread(target=time.sleep, args=(1000,)).start()
""",
}
"""Ends by itself, or at a limit that is reached at once."""

SLOW = {
    "answers with what takes its reader forever": """
import json, os
same = [number * ((1 << 61) - 1) for number in range(60_000)]
data = json.dumps({"value": {"set": [n if n < 1 << 63 else {"int": hex(n)} for n in same]}, "changed": []}).encode()
def double(x): os.write(3, len(data).to_bytes(8, "big") + data)
""",
    "hides from every signal": """
import signal, threading, time
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
try: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
except (OSError, ValueError): pass
def double(x):
    while True: pass
""",
    "stops itself": "import os, signal\ndef double(x): os.kill(os.getpid(), signal.SIGSTOP)\n",
    "sleeps": "import time\ndef double(x): time.sleep(1000)\n",
    "leaves a thread behind that never ends": """
import threading, time
def stay():
    while True: time.sleep(0.01)
threading.Thread(target=stay).start()
def double(x): return threading.Event().wait()
""",
}
"""Ends at the limit of time."""
