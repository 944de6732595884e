import re
import struct
from pathlib import Path

import pytest

from rlcore_sandbox.inside import seccomp


def decide(machine, number, *arguments):
    """What the filter says of a call: a plain interpreter of the few instructions that it has."""
    code = [struct.unpack("HBBI", one) for one in chunks(seccomp.program(machine), 8)]
    data = struct.pack("IIQ6Q", number, seccomp.ARCHITECTURE[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    at, value = 0, 0
    while True:
        kind, then, other, k = code[at]
        at += 1
        if kind == seccomp.LOAD:
            [value] = struct.unpack_from("I", data, k)
        elif kind == seccomp.RETURN:
            return {seccomp.PASS: "pass", seccomp.REFUSE: "refuse", seccomp.UNKNOWN: "unknown"}[k]
        else:
            holds = {
                seccomp.EQUAL: value == k,
                seccomp.AT_LEAST: value >= k,
                seccomp.HAS_BIT: bool(value & k),
            }[kind]
            at += then if holds else other


def chunks(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


@pytest.mark.parametrize(
    ("machine", "calls"),
    [
        ("x86_64", {"read": 0, "socket": 41, "ptrace": 101, "execve": 59, "clone": 56, "clone3": 435, "pair": 53}),
        (
            "aarch64",
            {"read": 63, "socket": 198, "ptrace": 117, "execve": 221, "clone": 220, "clone3": 435, "pair": 199},
        ),
    ],
)
def test_the_filter_decides_as_its_list_says(machine, calls):
    assert decide(machine, calls["read"]) == "pass"
    for name in ("socket", "ptrace", "execve", "clone3"):
        assert decide(machine, calls[name], 2) == "unknown"
    thread, process = 0x3D0F00, 0x1200011
    assert decide(machine, calls["clone"], thread) == "pass"
    assert decide(machine, calls["clone"], process) == "refuse"
    assert decide(machine, calls["clone"], thread | 0x20000000) == "refuse"
    assert decide(machine, calls["pair"], 1) == "pass"
    assert decide(machine, calls["pair"], 2) == "refuse"


@pytest.mark.parametrize(
    ("machine", "place"), [("x86_64", "x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "asm-generic/unistd.h")]
)
def test_the_numbers_of_system_calls_are_the_kernels(machine, place):
    header = Path("/usr/include") / place
    if not header.is_file():
        pytest.skip(f"no {header}: the kernel's headers are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    kernel = {{"fstatat": "newfstatat"}.get(name, name): int(number) for name, number in found}
    column = list(seccomp.ARCHITECTURE).index(machine)
    listed = [entry.split() for entry in seccomp.ALLOWED.split(",")]
    ours = {name: numbers[column] for name, *numbers in listed} | {one[0]: str(one[1 + column]) for one in seccomp.ONLY}
    wrong = {name: number for name, number in ours.items() if number != str(kernel.get(name, "-"))}
    # Kept for compatibility, or defined through another name.
    assert not {name: number for name, number in wrong.items() if name in kernel and number != "-"}
    assert len(ours) > 100


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(OSError, match="no filter is written for riscv64"):
        seccomp.program("riscv64")
