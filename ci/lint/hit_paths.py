"""Computes the cost of the straight paths through a function of a built x86-64 library from its machine code. Used by
ci/lint/golden_fastpath; needs objdump and readelf of binutils.

A straight path leads from the first instruction to a `ret`, passes no instruction twice, and never leaves the function
by a call or a jump. The exception is functions in `PASSES_ON`, so that a thin public name for one of them has a path
too: its own instructions, and the name of the function in which it continues.

Instructions are counted as they are executed, including jumps within the function. A load or store is an instruction's
access to memory: a read-modify-write is one of each; lea, nop and a prefetch are none; push and pop are one. The push
of a call and the pop of a ret are not counted, since every caller pays them for any function.
"""

import dataclasses
import os
import re
import subprocess

# The functions by their names in the library, and how the table calls them.
FUNCTIONS = {
    "malloc": "malloc",
    "free": "free",
    "hak_malloc": "hak_malloc",
    "hak_free": "hak_free",
    "_Znwm": "operator new(unsigned long)",
    "_ZdlPv": "operator delete(void*)",
}
PASSES_ON = ("malloc", "free", "hak_malloc", "hak_free")
PATHS_MAX = 64  # paths of one function; with more it is not a fast path

PREFIXES = set("lock rep repz repnz repe repne notrack bnd data16 addr32 cs ds es ss fs gs xacquire xrelease".split())
NO_ACCESS = re.compile(r"lea|nop|endbr(32|64)|prefetch\w*|clflush(opt)?|clwb|ud[012]|pause|[lms]fence")
# What an instruction does to a memory operand in the result's place (the last operand), by its name without the letter
# for the width. A memory operand in a source's place is always loaded.
RESULT_STORED = re.compile(
    r"mov|movabs|movnti|movbe|v?mov([ah]ps|[al]pd|ups|upd|hpd|lps|dq[au]\d*|[dq]|s[sd]|nt\w+)"
    r"|set\w+|v?p?extr(act)?\w*|stmxcsr|fn?st\w*|fistt?p?\w*"
)
RESULT_CHANGED = re.compile(
    r"add|adc|sub|sbb|and|or|xor|inc|dec|neg|not|sh[lr]d?|sa[lr]|ro[lr]|rc[lr]|bt[src]" r"|cmpxchg(8b|16b)?"
)
RESULT_LOADED = re.compile(r"cmp|test|bt|i?mul|i?div|fld\w*|fild\w*|ldmxcsr|jmp|call")
LOOP_BRANCH = re.compile(r"loop(n?[ez])?|jr?[ec]?cxz")


class Unreadable(Exception):
    """This file does not understand the library, or one of its instructions; the text says which."""


@dataclasses.dataclass
class Instruction:
    address: int
    name: str  # without prefixes
    operands: list
    text: str  # from the listing
    next: int = 0  # address of the following instruction
    target: int = None  # target of a direct jump or call
    symbol: str = ""  # what objdump calls the target

    def is_call(self):
        return re.fullmatch(r"l?call[wlq]?", self.name) is not None

    def is_jump(self):
        return re.fullmatch(r"l?jmp[wlq]?", self.name) is not None

    def is_branch(self):
        return not self.is_jump() and (self.name.startswith("j") or LOOP_BRANCH.fullmatch(self.name) is not None)

    def is_return(self):
        return re.fullmatch(r"l?i?ret[lwq]?", self.name) is not None

    def is_end(self):
        return re.fullmatch(r"ud[012][abw]?|hlt|int3", self.name) is not None


@dataclasses.dataclass
class Path:
    instructions: int
    branches: int  # conditional ones
    loads: int
    stores: int
    goes_on_in: str = ""  # functions of PASSES_ON, in order; empty text if there are none
    listing: list = dataclasses.field(default_factory=list, compare=False)

    def counts(self):
        return (self.instructions, self.branches, self.loads, self.stores, self.goes_on_in)

    def __str__(self):
        text = f"{self.instructions} instructions, {self.branches} branches, {self.loads} loads, {self.stores} stores"
        return text + (f", then {self.goes_on_in}" if self.goes_on_in else "")


@dataclasses.dataclass
class Function:
    paths: list  # items are Path, the cheapest first
    loops: int  # jumps back to an instruction that is on a path
    leaves_for: list = dataclasses.field(default_factory=list, compare=False)  # targets of all other ways


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout


def has_name(pattern, name):
    """Whether the pattern is the instruction's name, with or without the letter that objdump adds for a width."""
    return pattern.fullmatch(name) is not None or (name[-1] in "bwlq" and pattern.fullmatch(name[:-1]) is not None)


def is_memory(operand):
    plain = operand.lstrip("*")
    if re.match(r"%[c-gs]s:", plain) or "(" in re.sub(r"%st\(\d\)", "", plain):
        return True
    return re.match(r"-?(0x)?[0-9a-f]+$", plain) is not None  # an absolute address: constants have a $


def accesses(instruction):
    """The number of loads and stores that the instruction makes."""
    name, operands = instruction.name, instruction.operands
    if instruction.is_return() or has_name(NO_ACCESS, name) or (instruction.target is not None):
        return 0, 0
    memory = [index for index, operand in enumerate(operands) if is_memory(operand)]
    loads = stores = 0
    if has_name(re.compile("push|pushf"), name):
        return len(memory), 1
    if has_name(re.compile("pop|popf"), name):
        return 1, len(memory)
    if name in ("leave", "leaveq"):
        return 1, 0
    for index in memory:
        if has_name(re.compile("xchg|xadd|cmpxchg"), name):
            loads, stores = loads + 1, stores + 1
        elif index < len(operands) - 1:
            loads += 1
        elif has_name(re.compile("stos|movs"), name):
            stores += 1
        elif has_name(re.compile("cmps|scas|lods"), name) or has_name(RESULT_LOADED, name):
            loads += 1
        elif has_name(RESULT_CHANGED, name):
            loads, stores = loads + 1, stores + 1
        elif has_name(RESULT_STORED, name):
            stores += 1
        else:
            raise Unreadable(f"what '{instruction.text}' does to memory is not known: add it to ci/lint/hit_paths.py")
    return loads, stores


def parse(line):
    """An instruction of objdump's output, or None for any other line."""
    match = re.match(r"\s*([0-9a-f]+):\t(.*)", line)
    if not match:
        return None
    body = match[2].split("#")[0].strip()
    words = body.split()
    while len(words) > 1 and (words[0] in PREFIXES or re.fullmatch(r"rex\.?[WRXB]*", words[0])):
        del words[0]
    if not words:
        return None
    rest = " ".join(words[1:])
    operands = [part.strip() for part in re.split(r",(?![^(]*\))", rest)] if rest else []
    instruction = Instruction(int(match[1], 16), words[0].split(",")[0], operands, "")
    jumps = instruction.is_call() or instruction.is_jump() or instruction.is_branch()
    direct = re.match(r"([0-9a-f]+)(?: <([^>+]*).*>)?$", rest)
    if jumps and direct:
        instruction.target, instruction.symbol = int(direct[1], 16), direct[2] or ""
        instruction.text = instruction.name
    else:
        # Addresses differ in every build, so neither they nor objdump's names for them are kept.
        shown = re.sub(r"\s*<[^>]*>", "", rest)
        shown = re.sub(r"-?0x[0-9a-f]+\(%rip\)", "(%rip)", shown)
        instruction.text = f"{words[0]:6} {shown}".rstrip()
    return instruction


class Library:
    """One ELF file. Raises Unreadable if it is not x86-64."""

    def __init__(self, path):
        self.path = str(path)
        try:
            header = output("readelf", "-hW", self.path)
        except subprocess.CalledProcessError as error:
            raise Unreadable(f"not an ELF file that readelf reads ({error.stderr.strip()})") from error
        self.machine = re.search(r"Machine:\s*(.*)", header)[1].strip()
        self.symbols = {}
        for line in output("readelf", "-sW", self.path).splitlines():
            words = line.split()
            if len(words) >= 8 and words[3] == "FUNC" and words[6] != "UND":
                self.symbols[words[7].split("@")[0]] = (int(words[1], 16), int(words[2], 0))

    def compiler(self):
        """clang-19, gcc-12 and so on, from the compiler's own note. Every library also contains objects of libc, which
        gcc has compiled."""
        texts = output("readelf", "-p", ".comment", self.path)
        for name, pattern in (("clang", r"clang version (\d+)"), ("gcc", r"GCC: \([^\n]*\) (\d+)\.")):
            versions = re.findall(pattern, texts)
            if versions:
                return f"{name}-{max(versions, key=int)}"
        return "unknown"

    def key(self):
        return f"{self.compiler()} {'x86-64' if 'X86-64' in self.machine else self.machine}"

    def instructions(self, start, size):
        part = [f"--start-address={start:#x}", f"--stop-address={start + size:#x}"]
        text = output("objdump", "-d", "-w", "--no-show-raw-insn", *part, self.path)
        found = [instruction for instruction in map(parse, text.splitlines()) if instruction]
        for instruction, behind in zip(found, found[1:] + [None]):
            instruction.next = behind.address if behind else start + size
        return {instruction.address: instruction for instruction in found}

    def function(self, name):
        """The Function of that name, or None if the library does not define it."""
        if name not in self.symbols:
            return None
        start, size = self.symbols[name]
        if size == 0:
            raise Unreadable(f"the symbol {name} has no size")
        goes_on = {
            self.symbols[other][0]: other
            for other in reversed(PASSES_ON)
            if other in self.symbols and self.symbols[other][0] != start
        }
        return walk(self.instructions(start, size), goes_on, name, start)


def walk(instructions, goes_on, name, start):
    """All paths through one function, depth first. goes_on: address to name of PASSES_ON."""
    paths, back, ends = (
        [],
        set(),
        set(),
    )  # paths: lists of (instruction, remark for the listing, name of PASSES_ON or "")
    pending = [(start, [])]

    def follow(address, path):
        if any(step[0].address == address for step in path):
            back.add((path[-1][0].address, address))
        else:
            pending.append((address, path))

    while pending:
        address, path = pending.pop()
        if address not in instructions:
            ends.add("code outside of the function")
            continue
        now = instructions[address]
        inside, other = now.target in instructions, goes_on.get(now.target, "")
        away = now.symbol or (f"{now.target:#x}" if now.target is not None else "a computed address")
        if now.is_return():
            paths.append(path + [(now, "", "")])
        elif now.is_end():
            ends.add(now.name)
        elif now.is_call():
            if other and not inside:
                follow(now.next, path + [(now, other, other)])
            else:
                ends.add(away)
        else:
            if not now.is_jump():
                follow(now.next, path + [(now, "not taken" if now.is_branch() else "", "")])
            if now.is_jump() or now.is_branch():
                if inside:
                    follow(now.target, path + [(now, "taken" if now.is_branch() else "", "")])
                elif other:
                    paths.append(path + [(now, other, other)])
                else:
                    ends.add(away)
        if len(paths) > PATHS_MAX:
            raise Unreadable(f"{name} has more than {PATHS_MAX} paths without a call")
    on_paths = {step[0].address for path in paths for step in path}
    loops = sum(1 for source, target in back if source in on_paths and target in on_paths)
    return Function(sorted((cost(path) for path in paths), key=Path.counts), loops, sorted(ends))


def cost(path):
    counts = [accesses(step[0]) for step in path]
    return Path(
        len(path),
        sum(step[0].is_branch() for step in path),
        sum(loads for loads, _ in counts),
        sum(stores for _, stores in counts),
        " and ".join(step[2] for step in path if step[2]),
        [f"{step[0].text:6} {step[1]}".rstrip() for step in path],
    )
