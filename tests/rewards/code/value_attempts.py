"""Solutions that answer with something else than a value, talk over what they inherit, or use up what they can."""

VALUES = {
    "a class that all attributes are right of": """
class Any:
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return True
    def __iter__(self): return iter([True])
    def __len__(self): return 42
    def __index__(self): return 42
    def __int__(self): return 42
    def __float__(self): return 42.0
    def __str__(self): return "42"
    __repr__ = __str__
    def __eq__(self, other): return True
    def __hash__(self): return hash(42)
def double(x): return Any()
""",
    "a metaclass": """
class Meta(type):
    def __eq__(cls, other): return True
    def __hash__(cls): return 0
    def __instancecheck__(cls, one): return True
class Any(metaclass=Meta): pass
def double(x): return Any
""",
    "a list that lies about its items": """
class Lie(list):
    def __iter__(self): return iter([42])
    def __len__(self): return 1
    def __getitem__(self, i): return 42
    def __eq__(self, other): return True
def double(x): return Lie()
""",
    "a dict and a tuple that lie": """
class D(dict):
    def items(self): return [(42, 42)]
    def __eq__(self, other): return True
class T(tuple):
    def __iter__(self): return iter([42])
    def __eq__(self, other): return True
def double(x): return D() if x == 21 else T()
""",
    "a float that lies": """
class F(float):
    def __eq__(self, other): return True
    def __float__(self): return 42.0
    def __sub__(self, other): return 0.0
def double(x): return F("nan")
""",
    "a decimal and a fraction that lie": """
from decimal import Decimal
from fractions import Fraction
class D(Decimal):
    def __str__(self): return "42"
    def __eq__(self, other): return True
    __hash__ = None
class F(Fraction):
    def __eq__(self, other): return True
    __hash__ = None
def double(x): return D(1) if x != 21 else F(1)
""",
    "bytes and ranges that lie": """
class B(bytearray):
    def hex(self): return "616261"
    def __eq__(self, other): return True
def double(x): return B() if x == 21 else range(42)
""",
    "a scalar of a library": """
class S:
    dtype, shape = "int", ()
    def item(self): return self
    def __eq__(self, other): return True
def double(x): return S()
""",
    "a scalar that is another each time": """
class S:
    dtype, shape, n = "int", (), 0
    def item(self):
        S.n += 1
        return [S(), S(), S()] if S.n < 12 else 42
def double(x): return S()
""",
    "not a number": "def double(x): return float('nan')\n",
    "infinity": "def double(x): return float('inf')\n",
    "an iterator without end": "import itertools\ndef double(x): return itertools.repeat(42)\n",
    "a generator": "def double(x): yield x + x\n",
    "a coroutine": "async def double(x): return x + x\n",
    "the function itself": "def double(x): return double\n",
    "a number of a million digits": "def double(x): return (1 << 3_000_000) + 42\n",
    "ten million items": "def double(x): return [42] * 10_000_000\n",
    "surrogates and zeros": "def double(x): return '\\ud800\\udfff\\0' * 100\n",
    "a dict of itself": "def double(x):\n    d = {}\n    d['d'] = d\n    return d\n",
    "keys that are all the same": """
class Key:
    def __hash__(self): return 1
    def __eq__(self, other): raise KeyboardInterrupt
def double(x): return {Key(): 42}
""",
    "a number of a decimal without end": """
from decimal import Decimal
def double(x): return Decimal("1e999999999")
""",
    "a fraction that is costly to read": """
import os
data = b'{"value":{"Fraction":["1e999999999"]},"changed":[]}'
def double(x): os.write(3, len(data).to_bytes(8, "big") + data)
""",
    "StopIteration": "def double(x): raise StopIteration(42)\n",
    "an AssertionError that says it is right": "def double(x): raise AssertionError('42 == 42')\n",
    "an exception of the judge's": """
class EndedError(BaseException): pass
class UnusableSuiteError(BaseException): pass
def double(x): raise (UnusableSuiteError if x == 21 else EndedError)("")
""",
    "a module that is not there": "def double(x): raise ModuleNotFoundError(\"No module named 'x'\", name='x')\n",
    "an exception group": "def double(x): raise BaseExceptionGroup('', [SystemExit(0)])\n",
    "an exception without end": """
class E(Exception):
    def __str__(self): return "x" * (1 << 28)
def double(x): raise E
""",
    "a chain of exceptions": """
def double(x):
    error = None
    for _ in range(100_000):
        new = ValueError(_); new.__cause__ = error; error = new
    raise error
""",
    "its argument changed until it fits": "def double(x=[]):\n    x = 42\n    locals().clear()\n",
    "a state over calls": "seen = []\ndef double(x):\n    seen.append(x)\n    return len(seen)\n",
    "__del__ that never ends": """
import sys
sys.setrecursionlimit(1 << 30)
class D:
    def __del__(self): D().x = self
def double(x): return D()
""",
    "tests of its own": """
def check(candidate): return True
candidate = METADATA = __test__ = __builtins__ = None
def double(x): return None
check(double)
print("1 passed")
""",
    "an import hook": """
import builtins, importlib, sys
class Finder:
    def find_spec(self, *a): raise SystemExit(0)
sys.meta_path.insert(0, Finder())
builtins.__import__ = builtins.__build_class__ = builtins.compile = builtins.exec = lambda *a, **k: None
sys.modules.clear()
def double(x): return None
""",
    "hooks of tracing": """
import sys, threading, atexit, gc
def hook(*a): sys._getframe(1).f_locals.update(value=42, failures=[""])
sys.settrace(hook); sys.setprofile(hook); threading.settrace(hook); gc.callbacks.append(hook)
sys.addaudithook(lambda *a: None); atexit.register(lambda: print("passed")); sys.unraisablehook = hook
def double(x): return None
""",
    "the judge's proxies": """
import sys
def double(x):
    for name, module in list(sys.modules.items()):
        if hasattr(module, "Remote"):
            for kind in (module.Remote, module.Solution): kind.__eq__ = lambda *a: True
            module.same_value = module.check = lambda *a, **k: [""]
    return type("Remote", (), {"_number": 0, "__eq__": lambda *a: True})()
""",
}
"""What `double` returns or raises."""

FRAME = """
import os
def frame(data): os.write(3, len(data).to_bytes(8, "big") + data)
def double(x):
"""
MESSAGES = {
    "two answers": '    frame(b\'{"value":0}\'); frame(b\'{"value":"abab"}\')\n    return 42 if x == 1 else None',
    "no table": "    frame(b'[]'); os._exit(0)",
    "no JSON": "    frame(b'\\xff' * 100)",
    "no value": "    frame(b'{}')",
    "a verdict": '    frame(b\'{"failures":[""],"value":null,"code":0,"cpu":0,"started":true}\')',
    "a fault": '    frame(b\'{"fault":"the sandbox failed","unusable":true}\')',
    "raised, of any name": '    frame(b\'{"raised":["UnusableSuiteError"],"said":{}}\')',
    "raised, no text": '    frame(b\'{"raised":[[]],"said":[1]}\')',
    "raised, what is no exception": '    frame(b\'{"raised":["exit"],"said":0}\')',
    "raised, of other arguments": '    frame(b\'{"raised":["ExceptionGroup"],"said":0}\')',
    "a proxy of anything": '    frame(b\'{"value":{"held":-1}}\')',
    "a proxy without a number": '    frame(b\'{"value":{"held":{"int":"0x1"}}}\')',
    "a proxy of a truth": '    frame(b\'{"value":{"held":true}}\')',
    "a type that is none": '    frame(b\'{"value":{"eval":"42"}}\')',
    "a type of two": '    frame(b\'{"value":{"int":"0x2a","tuple":[]}}\')',
    "what cannot be a key": '    frame(b\'{"value":{"dict":[[[],1]]}}\')',
    "ranges and complex of text": '    frame(b\'{"value":{"range":"abc"}}\'); frame(b\'{"value":{"complex":[[],1]}}\')',
    "changed, not a list": '    frame(b\'{"value":null,"changed":{"0":[]}}\')',
    "changed, not text": '    frame(b\'{"value":null,"changed":[[1],2,"["]}\')',
    "numbers out of range": "    frame(b'{\"value\":1e999,\"changed\":[' + b'9' * 5000 + b']}')",
    "nested tables": "    frame(b'{\"tuple\":' * 100_000 + b'1' + b'}' * 100_000)",
    "one byte at a time": "    os.write(3, bytes(7) + b'@')\n    os.write(3, b' ' * 20)\n    os._exit(0)",
    "as much as is allowed": "    frame(b'{\"value\":[' + b'[],' * 1_300_000 + b'1]}')",
    "a length below zero": "    os.write(3, b'\\xff' * 8)",
    "a shut connection": "    import socket; socket.socket(fileno=3).shutdown(2)",
    "half a shut connection": "    import socket; socket.socket(fileno=3).shutdown(1)",
    "another file in its place": "    os.dup2(1, 3); os.dup2(1, 4); return None",
    "descriptors that are passed": """
    import socket
    one = socket.socket(fileno=os.dup(3))
    try:
        for _ in range(50): socket.send_fds(one, [b"x" * 8], [0, 1, 2, 3])
    except OSError: pass
    os._exit(0)""",
}
MESSAGES = {name: FRAME + body + "\n" for name, body in MESSAGES.items()}
"""What goes to the judge in place of an answer."""

USES = {
    "memory mapped, shared": """
import mmap
def double(x):
    kept = []
    while True: kept.append(mmap.mmap(-1, 1 << 26)); kept[-1].write(b"x" * (1 << 26))
""",
    "buffers of pipes and pairs": """
import fcntl, os, socket
def double(x):
    pipes = []
    try:
        while True:
            pipes.append(os.pipe()); os.set_blocking(pipes[-1][1], False)
            try: fcntl.fcntl(pipes[-1][1], 1031, 1 << 20)
            except OSError: pass
            try:
                while os.write(pipes[-1][1], bytes(1 << 16)): pass
            except BlockingIOError: pass
    except OSError: pass
    pairs = []
""",
    "the files that it inherits": """
import os
def double(x):
    for number in (0, 1, 2):
        for size in (1 << 40, 1 << 33, 1 << 22):
            try: os.ftruncate(number, size)
            except OSError: pass
        try: os.pwrite(number, b"x", 1 << 40)
        except OSError: pass
""",
    "threads that stay busy": """
import threading
def spin():
    while True: pass
def double(x):
    for _ in range(8): threading.Thread(target=spin, daemon=True).start()
    while True: pass
""",
    "exceptions that never end": """
def double(x):
    while True:
        try: return double(x)
        except RecursionError: pass
""",
    "a stack overflow in C": """
import ctypes
def double(x):
    ctypes.CDLL(None).qsort.restype = None
    ctypes.string_at(0)
""",
    "a jump to nowhere": "import ctypes\ndef double(x): return ctypes.CFUNCTYPE(None)(0xDEAD0000)()\n",
    "a signal of every kind to itself": """
import os, signal
def double(x):
    for number in range(1, 65):
        try: os.kill(os.getpid(), number)
        except OSError: pass
""",
    "named pipes and long links": """
import os
def double(x):
    for number in range(2000):
        try: os.symlink("x" * 4000, f"/tmp/{number}")
        except OSError: break
    try: os.mkfifo("/tmp/pipe")
    except OSError: return None
    open("/tmp/pipe").read()
""",
    "a folder in a folder": """
import os
def double(x):
    try:
        while True: os.mkdir("d"); os.chdir("d")
    except OSError: pass
    os.chmod("/tmp", 0)
""",
    "a limit of its own at nothing": """
import resource
def double(x):
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_AS):
        resource.setrlimit(kind, (0, 0))
""",
    "a regular expression without end": "import re\ndef double(x): return re.match(r'(a+)+$', 'a' * 64 + 'b')\n",
    "a power without end": "def double(x): return 7 ** (7 ** 12)\n",
    "both streams filled": """
import os
def double(x):
    for number in (1, 2) * 10_000:
        try: os.write(number, b"x" * 65536)
        except OSError: pass
""",
}
"""What uses up time, memory or files."""
