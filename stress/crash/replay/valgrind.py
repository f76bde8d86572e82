"""The method valgrind: runs the program on memcheck's own malloc, which reports invalid accesses. The heap differs, so
a bug that needs the block layout of libhakmem may not show."""

import os
import re
import shutil
import xml.etree.ElementTree as xml

import verdict as verdicts
from launch import NotFound, call, last_line

# Best first: a write is nearer to the cause than a read.
KINDS = ("InvalidWrite", "InvalidFree", "MismatchedFree", "InvalidRead")


def frames_of(stack):
    rows = []
    for frame in stack.findall("frame"):
        folder, file = frame.findtext("dir"), frame.findtext("file")
        rows.append(
            {
                "pc": int(frame.findtext("ip"), 16),
                "function": frame.findtext("fn") or "",
                "offset": 0,
                "module": frame.findtext("obj") or "",
                "line": int(frame.findtext("line") or 0),
                "file": os.path.join(folder, file) if folder and file else file or "",
            }
        )
    return rows


def errors_of(path):
    """Errors of memcheck, in order: kind, text, text on the block, stacks. A truncated file gives its complete
    errors."""
    parser, errors = xml.XMLPullParser(("end",)), []
    with open(path, "rb") as file:
        try:
            for line in file:
                parser.feed(line)
                errors += [element for _, element in parser.read_events() if element.tag == "error"]
        except xml.ParseError:
            pass
    return [
        {
            "kind": one.findtext("kind"),
            "what": one.findtext("what") or "",
            "block": one.findtext("auxwhat") or "",
            "stacks": [frames_of(stack) for stack in one.findall("stack")],
        }
        for one in errors
    ]


class Memcheck:
    def __init__(self, report, launcher, judge):
        self.report, self.launcher, self.judge = report, launcher, judge

    def environment(self):
        rows = {}
        for one in self.report.environment:
            name, _, value = one.partition("=")
            rows[name] = value
        ours = os.path.realpath(self.report.library)
        preload = [one for one in rows.pop("LD_PRELOAD", "").replace(":", " ").split() if os.path.realpath(one) != ours]
        rows.pop("HAKMEM_CRASH_DIR", None)
        if preload:
            rows["LD_PRELOAD"] = ":".join(preload)
        return rows

    def command(self, out):
        name = os.path.basename(self.report.library) or "NONE"
        name = re.sub(r"\.so[.\d]*$", ".so*", name)  # the soname has a version that the file's name may lack
        # Without chasing: if memcheck follows a call into a small function, it reports the caller's place for the
        # function's.
        return [
            shutil.which("valgrind"),
            "--tool=memcheck",
            "--vex-guest-chase=no",
            "--xml=yes",
            f"--xml-file={out}",
            "--num-callers=30",
            f"--soname-synonyms=somalloc={name}",
            "--",
            self.report.program,
            *self.launcher.arguments[1:],
        ]

    def find(self):
        out, log = (os.path.join(self.launcher.folder, name) for name in ("memcheck.xml", "memcheck.log"))
        self.launcher.runs += 1
        self.launcher.budget.doing("valgrind: memcheck runs the program")
        with open(log, "wb") as file:
            failed = call(
                self.command(out),
                self.environment(),
                file,
                self.launcher.budget.left(),
                self.report.directory,
                self.launcher.input_path,
            )
        if not os.path.exists(out):
            raise NotFound("valgrind gave no result: " + (failed or last_line(log)))
        # For an address outside of any block, memcheck knows no more than the crash shows.
        errors = [
            error
            for error in errors_of(out)
            if error["kind"] in KINDS and error["stacks"] and ("Free" in error["kind"] or "of size" in error["block"])
        ]
        errors.sort(key=lambda error: KINDS.index(error["kind"]))
        for error in errors:
            verdict = self.verdict(error)
            if verdict["culprit"] is not None:
                return verdict
        raise NotFound("memcheck saw no bad write, read or free" + (f": {failed}" if failed else ""))

    def verdict(self, error):
        """With another heap in another run, this may not be the error that caused the crash."""
        about = error["block"].removeprefix("Address ")
        stack, why = error["stacks"][0], f"memcheck: {error['what']}; the address {about}"
        is_freed = "of size" in error["block"] and "free'd" in error["block"]
        cause = {"InvalidFree": "double_free" if is_freed else "bad_free", "MismatchedFree": "bad_free"}.get(
            error["kind"]
        )
        if cause is None:
            known = (
                "overflow"
                if "of size" in error["block"]
                else "wild_write"
                if error["kind"] == "InvalidWrite"
                else "wild_read"
            )
            cause = "use_after_free" if is_freed else known
        if error["kind"] == "InvalidRead" and len(error["stacks"]) > 1 and is_freed:
            stack, why = error["stacks"][1], f"memcheck: it freed a block that the program still read: {error['block']}"
        return verdicts.make(
            verdicts.LIKELY,
            cause,
            self.judge.culprit(stack),
            why,
            stack,
            alternatives=[(None, "another error, which memcheck's heap hides")],
        )
