"""Solutions that try to score without solving, to stay, or to break what judges them.

The task is a function `double` that is tested with `double(21) == 42` and `double("ab") == "abab"`.
"""

ROW = {
    "prompt": 'def double(x):\n    """ Return x twice over. """\n',
    "entry_point": "double",
    "test": "def check(candidate):\n    assert candidate(21) == 42\n    assert candidate('ab') == 'abab'\n",
}
RIGHT = "def double(x):\n    return x + x\n"

# Where a process that should not be there would show itself, and a port that one would listen on.
PORT = 47_631
MARK = "rlcore_escape_mark"

FORGED = {
    "equals everything": """
class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def double(x): return Same()
""",
    "a subclass of int that equals everything": """
class Same(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__
def double(x): return Same(0)
""",
    "a subclass of str that equals everything": """
class Same(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
def double(x): return Same("")
""",
    "an object that says it is another class": """
class Same:
    @property
    def __class__(self): return int
    def __eq__(self, other): return True
    def __bool__(self): return True
def double(x): return Same()
""",
    "sys.exit(0) while it is loaded": "import sys\nsys.exit(0)\n",
    "sys.exit(0) when it is called": "import sys\ndef double(x): sys.exit(0)\n",
    "os._exit(0)": "import os\ndef double(x): os._exit(0)\n",
    "raises SystemExit": "def double(x): raise SystemExit\n",
    "raises KeyboardInterrupt": "def double(x): raise KeyboardInterrupt\n",
    "raises a BaseException of its own": """
class Stop(BaseException): pass
def double(x): raise Stop()
""",
    "raises GeneratorExit and StopIteration": """
def double(x): raise GeneratorExit if x == 21 else StopIteration
""",
    "kills its parent": """
import os, signal
def double(x):
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP):
        try: os.kill(os.getppid(), number)
        except OSError: pass
    return None
""",
    "sends every signal to its parent": """
import os, time
def double(x):
    for number in range(1, 65):
        try: os.kill(os.getppid(), number)
        except OSError: pass
    time.sleep(0.1)
    return None
""",
    "kill -1": """
import os, signal
def double(x):
    os.kill(-1, signal.SIGKILL)
    return None
""",
    "prints what a verdict looks like": """
import json, sys
for stream in (sys.stdout, sys.stderr):
    for text in ({"failures": [""]}, {"score": 1.0, "passed": 1, "total": 1}, {"started": True}):
        print(json.dumps(text), file=stream, flush=True)
def double(x): return None
""",
    "writes verdicts into every descriptor": """
import json, os
def double(x):
    data = json.dumps({"failures": [""], "code": 0, "late": False}).encode()
    for number in range(256):
        for message in (data, len(data).to_bytes(8, "big") + data):
            try: os.write(number, message)
            except OSError: pass
    return None
""",
    "answers before it is asked": """
import json, os
data = json.dumps({"value": None, "changed": []}).encode()
for _ in range(50):
    os.write(3, len(data).to_bytes(8, "big") + data)
def double(x): return None
""",
    "closes every descriptor": "import os\ndef double(x): os.closerange(0, 1024)\n",
    "looks for the tests in frames": """
import sys
def double(x):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [value for value in {**frame.f_globals, **frame.f_locals}.values()]
        frame = frame.f_back
    text = repr(seen)
    if "".join(["def check(candi", "date)"]) in text: return x + x
""",
    "looks for the tests in every object": """
import gc, sys
def double(x):
    texts = [one for one in gc.get_objects() if isinstance(one, (str, dict, list, bytes))]
    for module in list(sys.modules.values()):
        texts += [value for value in vars(module).values() if isinstance(value, (str, bytes))]
    if any("".join(["candidate(2", "1)"]) in str(one)[:100_000] for one in texts[:20_000]): return x + x
""",
    "looks for the tests in its memory": """
import ctypes, io, os
def double(x):
    wanted = b"".join([b"candidate(", b"21)"])
    for path in ("/proc/self/mem", "/proc/1/mem", "/proc/self/maps", "/dev/mem"):
        try:
            if wanted in open(path, "rb").read(): return x + x
        except OSError: pass
    start = id(wanted) & ~0xFFFFF
    if ctypes.string_at(start, 0) is None or wanted in ctypes.string_at(id(wanted) + 64, 4096): return x + x
""",
    "looks for the tests in files": """
import os
def double(x):
    for folder, folders, files in os.walk("/"):
        folders[:] = [one for one in folders if not one.startswith("python3")]
        for name in files:
            if "humaneval" in name.lower() or name.endswith((".jsonl", ".jsonl.gz", ".parquet")): return x + x
""",
    "reads secrets of the trainer": """
import os
def double(x):
    secrets = [name for name in os.environ if "KEY" in name or "TOKEN" in name or "RLCORE" in name]
    for path in ("/proc/self/environ", "/proc/1/environ", "/etc/passwd", "/etc/hostname", "/root/.bashrc", "/home"):
        if os.path.exists(path): secrets.append(path)
    if secrets: return x + x
""",
    "changes builtins": """
import builtins, sys, operator
builtins.len = builtins.all = builtins.bool = lambda *a: True
builtins.AssertionError = type("Nothing", (BaseException,), {})
operator.eq = lambda a, b: True
def double(x): return None
""",
    "replaces modules of the checker": """
import sys, json
for name, module in list(sys.modules.items()):
    if name.startswith("inside"):
        for attribute in list(vars(module)):
            if not attribute.startswith("__"): setattr(module, attribute, lambda *a, **k: "")
json.dumps = lambda *a, **k: '{"value":42,"changed":[]}'
json.loads = lambda *a, **k: {"failures": [""]}
def double(x): return None
""",
    "patches whoever formats its traceback": """
import sys, traceback
def fine(*a, **k): return None
for module in (traceback, sys):
    for name in ("print_exc", "format_exception", "print_exception", "excepthook", "settrace"):
        setattr(module, name, fine)
sys.excepthook = fine
def double(x):
    try: raise ValueError
    except ValueError as error:
        frame = error.__traceback__.tb_frame
        while frame:
            frame.f_locals.update(failures=[""], passed=1)
            frame.f_globals["check"] = fine
            frame = frame.f_back
    return None
""",
    "changes the tests' own arguments": """
class Sly(list):
    def __eq__(self, other): return True
def double(x):
    global kept
    kept = x
    return Sly([x])
""",
    "cannot be packed": """
class Evil:
    def __reduce__(self): raise SystemExit
    def __repr__(self): raise SystemExit
    def __getattribute__(self, name): raise SystemExit(0)
def double(x): return Evil()
""",
    "runs code where it is unpacked": """
import os
class Evil:
    def __reduce__(self): return (os._exit, (0,))
def double(x): return Evil()
""",
    "returns what is nested without end": """
def double(x):
    inner = []
    for _ in range(100_000): inner = [inner]
    return inner
""",
    "returns what holds itself": """
def double(x):
    inner = []
    inner.append(inner)
    return inner
""",
    "returns a text that a parser chokes on": """
import os
data = b"[" * 200_000
def double(x):
    os.write(3, len(data).to_bytes(8, "big") + data)
""",
    "returns too much": "def double(x): return 'a' * (1 << 25)\n",
    "announces a frame that never comes": """
import os
def double(x):
    os.write(3, (1 << 62).to_bytes(8, "big"))
""",
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

FORKING = {
    "forks without end": """
import os
def double(x):
    while True:
        try: os.fork()
        except OSError: return None
""",
    "leaves a daemon behind": """
import os, time
def double(x):
    if os.fork() == 0:
        os.setsid() if hasattr(os, "setsid") else None
        if os.fork() == 0:
            os.closerange(0, 64)
            time.sleep(1000)
        os._exit(0)
    return None
""",
    "answers from a child after the parent is gone": """
import os, time
def double(x):
    if os.fork(): os._exit(0)
    time.sleep(0.1)
    return None
""",
    "kill -1 with children": """
import os, signal, time
def double(x):
    for _ in range(5):
        if os.fork() == 0: time.sleep(1000)
    os.kill(-1, signal.SIGKILL)
    return None
""",
}
"""Where a run may have more than one process."""
