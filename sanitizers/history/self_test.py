"""Tests of ci/history, with a suite and libraries that are stand-ins: python3 -B sanitizers/history/self_test.py

More than 400 lines: all tests share the stand-ins at the top."""

import collections
import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest

import commands
import judge
import matrix
import matrix_page
import rows as table
import versions

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# A suite that reads what to say from the library it is given.
STRESS = """#!/usr/bin/env python3
import json, sys
words = sys.argv[1:]
library = words[words.index("--allocator") + 1] if "--allocator" in words else "/dev/null"
said = json.loads(open(library).read() or "{}")
out = "" if words[-1] == "--list" else words[words.index("--junit" if words[0] == "inject" else "--json") + 1]
if said.get("hang"):
    import time
    time.sleep(60)
if said.get("status", 0) > 1:
    sys.exit("hakmem-stress: it does not provide malloc")
with open(sys.argv[0] + ".log", "a+") as log:
    log.seek(0)
    if len(log.readlines()) < said.get("from_run", 0):
        said = {}
    print(*words, file=log)
if words[-1] == "--list":
    sys.exit(print("free-sized  it frees\\nreallocarr  it grows\\nlost-frees  it loses"))
if words[0] == "all":
    names = [words[i + 1] for i, word in enumerate(words) if word == "--scenario"] or ["mid", "idle"]
    runs = [{"scenario": name, "verdict": said.get("all:" + name, "pass"), "failures": [{"rule": "overlap"}]} for name in names]
    json.dump({"runs": runs}, open(out, "w"))
    sys.exit(any(run["verdict"] == "fail" for run in runs))
if words[0] == "conform":
    ids = [words[i + 1] for i, word in enumerate(words) if word == "--only"]
    if said.get("chance") and ids == ["free-sized"]:
        said = {}
    checks = [{"id": name, "status": said.get(name, "pass"), "detail": "at 0x7f0012345678"} for name in ids]
    json.dump({"checks": checks}, open(out, "w"))
    sys.exit(any(check["status"] == "fail" for check in checks))
rules = said.get("rules", [])
json.dump({"scenario": words[0], "verdict": "fail" if rules else "pass",
           "failures": [{"rule": rule} for rule in rules]}, open(out, "w"))
sys.exit(bool(rules))
"""


def line(name, **cells):
    usual = dict(
        name=name,
        project="a",
        broken="pypi/tbb/1.0",
        mended="pypi/tbb/2.0",
        kind="api",
        reference="a#1",
        bug="it is wrong",
        command="conform --only free-sized --only reallocarr",
        result="not run",
        by="-",
        seconds="-",
        reason="-",
    )
    return "\t".join({**usual, **cells}.values())


class Store(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "sanitizers").mkdir()
        self.table = self.root / "sanitizers/history.tsv"
        self.stress = self.root / "stress"
        self.stress.write_text(STRESS)
        self.stress.chmod(0o755)
        self.store = self.root / "store"

    def library(self, version, **said):
        path = versions.Store(self.store).path(version)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(said))

    def history(self, *words):
        words = ["--root", self.root, "--store", self.store, "--stress", self.stress, *words]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = commands.main([str(word) for word in words])
            except SystemExit as ended:
                code = ended.code
        return types.SimpleNamespace(returncode=code, stdout=out.getvalue(), stderr=err.getvalue())

    def outcome(self, broken, mended, budget=60, **cells):
        self.table.write_text(line("one", **cells) + "\n")
        self.library("pypi/tbb/1.0", **broken)
        self.library("pypi/tbb/2.0", **mended)
        out = self.root / "out.json"
        self.done = self.history("--row", "one", "--out", out, "--offline", "--budget", budget)
        return json.loads(out.read_text())["one"]

    def test_found_only_if_the_mended_version_does_not_fail_by_the_same(self):
        bad = {"free-sized": "fail"}
        seen = self.outcome(bad, {})
        self.assertEqual(("found", "free-sized", "at ADDRESS"), (seen["result"], seen["by"], seen["reason"]))
        self.assertEqual("unclear", self.outcome(bad, bad)["result"])
        self.assertEqual("missed", self.outcome({}, {})["result"])
        self.assertEqual("missed", self.outcome({}, bad)["result"])
        # The mended version fails by another check: that is no reason to doubt this one.
        self.assertEqual("found", self.outcome(bad, {"reallocarr": "fail"})["result"])
        seen = self.outcome({"free-sized": "memory cap"}, {})
        self.assertEqual(("found", "free-sized"), (seen["result"], seen["by"]))
        # A check that is skipped on the mended version did not pass there.
        self.assertEqual("unclear", self.outcome(bad, {"free-sized": "skip"})["result"])
        self.assertIn("skipped", self.outcome({"free-sized": "skip"}, {})["reason"])

    def test_a_scenario_is_joined_by_rule(self):
        command = dict(command="larson --seconds 1 --seed 1")
        seen = self.outcome({"rules": ["crash", "overlap"]}, {"rules": ["overlap"]}, **command)
        self.assertEqual(("found", "crash"), (seen["result"], seen["by"]))

    def test_a_race_has_three_tries(self):
        bad = {"free-sized": "fail", "from_run": 4}
        self.assertEqual("missed", self.outcome(bad, {}, kind="api")["result"])
        self.assertEqual("found", self.outcome(bad, {}, kind="concurrency")["result"])
        self.assertEqual(8, self.asked())  # one and one, three and three

    def test_what_cannot_run_is_no_miss(self):
        self.assertEqual("cannot", self.outcome({"status": 2}, {})["result"])
        seen = self.outcome({}, {"hang": 1}, budget=2)
        self.assertEqual("cannot", seen["result"])
        self.assertIn("ran past 2 s", seen["reason"])
        self.table.write_text(line("gone", broken="pypi/tbb/9.0") + "\n")
        done = self.history("--row", "gone", "--offline")
        self.assertIn("--offline forbids", done.stdout)
        self.assertEqual(77, done.returncode)

    def test_rows_that_did_not_run_are_counted(self):
        self.table.write_text(line("one") + "\n" + line("two", broken="pypi/tbb/9.0") + "\n")
        self.library("pypi/tbb/1.0", **{"free-sized": "fail"})
        self.library("pypi/tbb/2.0")

        def fetch(_package, _version, folder):
            versions.run(["no-such-client"], folder, 5)

        wheel, versions.FETCH["pypi"] = versions.FETCH["pypi"], fetch
        try:
            done = self.history("--row", "one", "--row", "two")
            self.assertIn(
                "\nrows ... ok\ntwo ... skipped 'pypi/tbb/9.0: no-such-client is not installed'\n", done.stdout
            )
            self.assertEqual(0, done.returncode)
            self.assertEqual(77, self.history("--row", "two").returncode)
        finally:
            versions.FETCH["pypi"] = wheel

    def test_a_row_that_is_found_no_more_fails(self):
        self.outcome({}, {}, result="found", by="free-sized", seconds="1.0")
        self.assertEqual(1, self.done.returncode)
        self.assertIn("one was found by free-sized", self.done.stderr)
        self.assertEqual(1, self.history("--all", "--offline").returncode)

    def test_results_of_two_machines_are_merged(self):
        self.table.write_text(
            "# head\n" + line("one") + "\n" + line("two", result="out of reach", reason="an API of its own")
        )
        a, b = self.root / "a.json", self.root / "b.json"
        a.write_text(json.dumps({"one": dict(result="found", by="free-sized", seconds=1, reason="")}))
        b.write_text(json.dumps({"two": dict(result="missed", by="", seconds=2.5, reason="passes on both")}))
        done = self.history("--merge", a, b)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("finds 1 of 1 bugs that were run, of 2 rows", done.stdout)
        a.write_text(json.dumps({"one": dict(result="not run", by="", seconds=0, reason="out of reach")}))
        self.assertEqual(0, self.history("--merge", a).returncode)
        comments, rows = table.read(self.table)
        self.assertEqual(["# head"], comments)
        self.assertEqual(["found", "out of reach"], [row.result for row in rows])
        for text in (
            "{",
            "[]",
            '{"one": {"result": "perhaps"}}',
            '{"three": {"result": "found", "by": "", "seconds": 1, "reason": ""}}',
        ):
            a.write_text(text)
            done = self.history("--merge", a)
            self.assertEqual(2, done.returncode, text)
            self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)

    def test_bad_input_is_one_line(self):
        self.table.write_text(line("one") + "\n")
        for words, part in (
            ((), "which rows"),
            (("--row", "x"), "no row 'x'"),
            (("--all", "--kind", "x"), "no kind 'x'"),
            (("--all", "--out", "/nix/out"), "--out /nix/out: there is no such directory"),
            (("--all", "--store", "/proc/nix"), "/proc/nix"),
        ):
            done = self.history(*words)
            self.assertEqual(2, done.returncode)
            self.assertIn(part, done.stderr)
            self.assertEqual(1, len(done.stderr.splitlines()))
        for wrong in (
            "too\tfew",
            line("one") + "\n" + line("one"),
            line("one", kind="x"),
            line("one", result="x"),
            line("one", result="missed"),
            line("one", command="rm -r x"),
        ):
            self.table.write_text(wrong + "\n")
            done = self.history("--list")
            self.assertEqual(2, done.returncode, wrong)
            self.assertIn("history.tsv:", done.stderr)

    def test_versions(self):
        self.assertEqual(("crates.io", "p", "0.1", "v2"), versions.parts_of("crates.io/p/0.1:v2"))
        self.assertEqual(("debian", "p", "1:2.0-1", None), versions.parts_of("debian/p/1:2.0-1"))
        for wrong in ("p/0.1", "npm/p/1", "crates.io/p", "crates.io/p/1/2"):
            self.assertRaises(ValueError, versions.parts_of, wrong)
        self.assertRaises(ValueError, versions.builder_of, "pypi/other/1.0")

    def test_a_build_that_failed_is_remembered_with_its_reason(self):
        store = versions.Store(self.store)
        tries = []

        def fetch(_package, _version, folder):
            tries.append(folder)
            return folder

        def build(_source, _part, _out):
            versions.run(["sh", "-c", "echo first; echo 'x.c:1: error: no such thing' >&2; exit 1"], self.root, 5)

        versions.FETCH["test"], versions.BUILD[r"pypi/tbb"], kept = fetch, build, versions.BUILD[r"pypi/tbb"]
        wheel, versions.FETCH["pypi"] = versions.FETCH["pypi"], fetch
        try:
            for _ in range(2):
                with self.assertRaisesRegex(versions.Unavailable, "error: no such thing"):
                    store.library("pypi/tbb/1.0")
        finally:
            versions.BUILD[r"pypi/tbb"], versions.FETCH["pypi"] = kept, wheel
            del versions.FETCH["test"]
        self.assertEqual(1, len(tries))
        with self.assertRaises(versions.OutOfReach):
            versions.run(["no-such-client"], self.root, 5)

    def test_a_build_that_was_cut_is_tried_again(self):
        for words, seconds in ((["sh", "-c", "kill -9 $$"], 5), (["sleep", "60"], 0.1)):
            with self.assertRaises(versions.Cut):
                versions.run(words, self.root, seconds)
        store, kept, wheel = versions.Store(self.store), versions.BUILD[r"pypi/tbb"], versions.FETCH["pypi"]
        versions.FETCH["pypi"] = lambda _package, _version, folder: folder
        versions.BUILD[r"pypi/tbb"] = lambda *_: versions.run(["sh", "-c", "kill -9 $$"], self.root, 5)
        try:
            for _ in range(2):
                self.assertRaises(versions.Cut, store.library, "pypi/tbb/3.0")
        finally:
            versions.BUILD[r"pypi/tbb"], versions.FETCH["pypi"] = kept, wheel
        self.assertEqual([], list((store.root / "lib").glob("*3.0.failed")))

    def test_a_registry_that_is_silent_is_asked_once(self):
        store = versions.Store(self.store)
        tries = []

        def fetch(_package, version, folder):
            tries.append(version)
            versions.run(["sleep", "60"], folder, 0.1, versions.OutOfReach)

        wheel, versions.FETCH["pypi"] = versions.FETCH["pypi"], fetch
        try:
            for version in ("pypi/tbb/1.0", "pypi/tbb/2.0"):
                with self.assertRaisesRegex(versions.OutOfReach, "sleep took more than 0.1 s"):
                    store.library(version)
        finally:
            versions.FETCH["pypi"] = wheel
        self.assertEqual(["1.0"], tries)

    def matrix(self, *listed):
        """The lines that --matrix keeps, for versions of tbb, the newest first."""
        (self.root / "sanitizers/versions.tsv").write_text("".join(f"a\tpypi/tbb/{number}\t-\n" for number in listed))
        self.table.write_text(line("one") + "\n")
        self.done = self.history("--matrix", "--offline")
        return matrix.read_lines(self.store / "matrix.ndjson")

    def log(self):
        log = pathlib.Path(f"{self.stress}.log")
        return log.read_text().splitlines() if log.exists() else []

    def asked(self):
        return len(self.log())

    def test_the_matrix_keeps_a_line_for_each_part_and_continues(self):
        self.library("pypi/tbb/1.0", **{"free-sized": "fail"})
        self.library("pypi/tbb/2.0", **{"free-sized": "fail", "chance": True})
        self.library("pypi/tbb/3.0", **{"reallocarr": "skip", "all:mid": "fail"})
        seen = self.matrix("3.0", "2.0")
        self.assertEqual(0, self.done.returncode, self.done.stderr)
        self.assertEqual({"free-sized": [1, 2, "at ADDRESS"]}, seen["pypi/tbb/2.0"]["conform"]["failed"])
        self.assertEqual({"mid": [2, 2, "overlap"]}, seen["pypi/tbb/3.0"]["scenarios"]["failed"])
        self.assertEqual({"reallocarr": "at ADDRESS"}, seen["pypi/tbb/3.0"]["conform"]["skipped"])
        before = self.asked()
        with open(self.store / "matrix.ndjson", "a") as file:
            file.write('{"version": "pypi/tbb/2')  # a run was cut here
        seen = self.matrix("3.0", "2.0", "1.0")
        self.assertEqual(4, self.asked() - before)  # --list, two parts, and a failure once more: of 1.0 only
        self.assertEqual({"free-sized": [2, 2, "at ADDRESS"]}, seen["pypi/tbb/1.0"]["conform"]["failed"])
        before = self.asked()
        self.stress.write_text(STRESS.replace("it loses", "it loses\\nnew  it is new"))
        seen = self.matrix("1.0")
        self.assertIn("conform --memory-cap 2048 --only new ", self.log()[-1])
        self.assertEqual(2, self.asked() - before)  # --list, and the check that is new
        self.assertEqual(["reallocarr", "lost-frees", "new"], seen["pypi/tbb/1.0"]["conform"]["passed"])

    def test_a_part_without_an_answer_is_tried_again(self):
        self.library("pypi/tbb/1.0", hang=1)
        usual, matrix.SECONDS = matrix.SECONDS, 1
        try:
            for _ in range(2):
                seen = self.matrix("1.0")["pypi/tbb/1.0"]
        finally:
            matrix.SECONDS = usual
        self.assertEqual({part: "ran past 1 s" for part in matrix.PARTS}, seen["faults"])
        self.assertEqual(2, len((self.store / "matrix.ndjson").read_text().splitlines()))
        self.assertIn("tbb 1.0: ran past 1 s", (self.store / "matrix.html").read_text())
        self.library("pypi/tbb/1.0")
        self.assertEqual({}, self.matrix("1.0")["pypi/tbb/1.0"]["faults"])

    def test_each_cell_says_how_sure_it_is(self):
        self.library("pypi/tbb/1.0", **{"free-sized": "memory cap", "reallocarr": "inconclusive", "lost-frees": "skip"})
        seen = self.matrix("1.0")["pypi/tbb/1.0"]["conform"]
        self.assertEqual({"free-sized": "at ADDRESS"}, seen["capped"])
        self.assertEqual({"reallocarr": "inconclusive: at ADDRESS", "lost-frees": "at ADDRESS"}, seen["skipped"])
        self.assertIn("The cap stopped free-sized on 1 version.", (self.store / "matrix.html").read_text())
        self.assertEqual(["once", "fail", "times"], [matrix_page.kind_of(*runs) for runs in ((1, 1), (2, 2), (1, 2))])

    def test_a_page_needs_a_line(self):
        self.matrix()
        page = self.root / "other.html"
        page.write_text("kept")
        about = {key: "x" for key in matrix.ABOUT}
        for text in (
            "",
            "x",
            "[]",
            '{"version": 1}',
            '{"version": "pypi/tbb/1.0"}',
            json.dumps({**about, "version": "x"}),
        ):
            page.with_suffix(".ndjson").write_text(text)
            done = self.history("--page", page.with_suffix(".ndjson"))
            self.assertEqual(2, done.returncode, text)
            self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
            self.assertEqual("kept", page.read_text())

    def test_a_version_that_passes_nothing_has_a_column(self):
        names = "free-sized reallocarr lost-frees all:mid all:idle".split()
        self.library("pypi/tbb/1.0", **{name: "fail" for name in names})
        self.matrix("1.0")
        self.assertIn("<td>1</td><td>5</td><td>5</td><td>0</td>", (self.store / "matrix.html").read_text())

    def test_equal_libraries_run_once(self):
        for number in ("1.0", "2.0"):
            self.library(f"pypi/tbb/{number}")
        seen = self.matrix("2.0", "1.0")
        self.assertEqual(3, self.asked())  # --list, and two parts
        self.assertEqual("pypi/tbb/2.0", seen["pypi/tbb/1.0"]["same_as"])

    def test_a_version_that_is_out_of_reach_is_tried_again(self):
        self.assertEqual({}, self.matrix("1.0"))
        self.assertEqual(77, self.done.returncode)
        self.assertIn("skipped: pypi/tbb/1.0: not built", self.done.stdout)
        (self.store / "lib/pypi-tbb-1.0.failed").write_text("cc: error: no\n")
        self.assertEqual("cc: error: no", self.matrix("1.0")["pypi/tbb/1.0"]["cannot"])

    def test_the_page_says_what_broke_and_mended_each_check(self):
        for number, said in (("1.0", "pass"), ("2.0", "fail"), ("3.0", "skip"), ("4.0", "fail"), ("5.0", "pass")):
            self.library(f"pypi/tbb/{number}", **{"free-sized": said, "number": number})
        self.matrix("6.0", "5.0", "4.0", "3.0", "2.0", "1.0")
        known = matrix.read_versions(self.root / "sanitizers/versions.tsv")
        project = matrix_page.projects_of(known, matrix.read_lines(self.store / "matrix.ndjson"))[0]
        check = ("conform", "free-sized")
        self.assertEqual([("mended", "pypi/tbb/5.0", []), ("broken", "pypi/tbb/2.0", [])], project.turns(check))
        self.assertEqual([check], project.failed)
        self.assertEqual((5, 1, 0, 0, 1, 1), matrix_page.counts(project))
        self.assertEqual([("pypi/tbb/6.0", "not run yet")], project.cannot)
        rows = [matrix.Version("a", f"pypi/tbb/{number}", "-") for number in "5.0 4.5 4.0 3.0 2.0 1.0".split()]
        seen = matrix.read_lines(self.store / "matrix.ndjson")
        for text in ("mended in 5.0 or 4.5", "mended in 5.0 or one of the 3 versions before it"):
            turn = matrix_page.Project("a", rows, seen).turns(check)[0]
            self.assertEqual(text, matrix_page.turn_text(*turn))
            seen.pop("pypi/tbb/4.0", None)
        page = (self.store / "matrix.html").read_text()
        self.assertIn("mended in 5.0; broken in 2.0", page)
        self.assertIn("ci/history --cell pypi/tbb/4.0 free-sized", page)
        self.assertIn("free-sized", (self.store / "matrix.svg").read_text())
        self.assertEqual(1, self.history("--cell", "pypi/tbb/4.0", "free-sized", "--offline").returncode)
        self.assertEqual(0, self.history("--cell", "pypi/tbb/5.0", "all:mid", "--offline").returncode)

    def test_the_versions_of_the_tree(self):
        known = matrix.read_versions(ROOT / "sanitizers/versions.tsv")
        self.assertGreaterEqual(len(known), 80)
        self.assertEqual(len(known), len({row.version for row in known}))
        projects = [row.project for row in known]
        for one, two in zip(known, known[1:]):
            if one.project != two.project:
                self.assertNotIn(one.project, projects[known.index(two) :])
            elif "-" not in (one.date, two.date):
                self.assertGreaterEqual(one.date, two.date)

    def test_the_table_of_the_tree(self):
        _, rows = table.read(ROOT / "sanitizers/history.tsv")
        self.assertGreaterEqual(len(rows), 60)
        self.assertGreaterEqual(len({row.project for row in rows}), 5)
        for row in rows:
            self.assertNotEqual(row.broken, row.mended, row.name)
            versions.builder_of(row.broken), versions.builder_of(row.mended)
            versions.parts_of(row.broken), versions.parts_of(row.mended)

    def test_the_quick_rows_take_few_builds(self):
        _, rows = table.read(ROOT / "sanitizers/history.tsv")
        picked = [row for row in rows if row.name in commands.QUICK]
        self.assertEqual(["found"] * 6, [row.result for row in picked])
        self.assertEqual(6, len({row.by for row in picked}))
        self.assertGreaterEqual(len({row.project for row in picked}), 3)
        built = {version for row in picked for version in row[2:4] if version.startswith("crates.io")}
        self.assertLessEqual(len(built), 4)
        self.assertFalse({row.name for row in picked if row.project in ("snmalloc", "jemalloc")})

    def test_a_matrix_that_was_cut_has_some_of_every_project(self):
        rows = [matrix.Version(*cells.split(), "-") for cells in "a a/3,a a/2,a a/1,b b/2,b b/1,c c/1".split(",")]
        turn = [row.version for row in matrix.in_turn(rows, {"a/3": {}, "c/1": {}})]
        self.assertEqual("b/2 a/2 b/1 a/1 a/3 c/1".split(), turn)

    def test_the_first_page_has_the_figures_of_the_table(self):
        _, rows = table.read(ROOT / "sanitizers/history.tsv")
        count = collections.Counter(row.result for row in rows)
        page = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
        self.assertIn(
            f"Of {len(rows)} bugs that other mallocs shipped, the suite finds {count['found']} and misses"
            f" {count['missed']}; of {count['unclear']} it cannot tell."
            f" {count['out of reach'] + count['cannot']} do not count: {count['out of reach']} are out of reach and"
            f" {count['cannot']} lack a version",
            page,
        )

    def test_a_complaint_names_no_path(self):
        text = (
            "cannot use '/home/x/lib.so': /lib/libc.so.6: version `GLIBC_2.38' not found (required by /home/x/lib.so)"
        )
        self.assertEqual("it needs GLIBC_2.38, which this machine does not have", judge.complaint(2, text))
        self.assertEqual("exit status 2: last", judge.complaint(2, "first\nlast\n\n"))
        text = "/home/x/build/lib/debian-a-1-2.0-1/libx.so: no TLS; /proc/self/maps"
        self.assertEqual("libx.so: no TLS; /proc/self/maps", judge.shown(text))

    def test_a_find_of_another_bug_stays_unclear(self):
        row = table.Row(*line("one", result="unclear", reason="another bug: a crash").split("\t"))
        seen = dict(result="found", by="free-sized", seconds=1, reason="a crash")
        self.assertEqual([row], table.merged([row], {"one": seen}))
        row = row._replace(reason="fails on both")
        self.assertEqual("found", table.merged([row], {"one": seen})[0].result)

    def test_of_inject(self):
        text = (
            '<testcase name="a"><failure message="lost: 3 bytes"/></testcase><testcase name="b"><skipped/></testcase>'
        )
        self.assertEqual(({"lost": "lost: 3 bytes"}, ["b"]), judge.of_inject(f"<t>{text}</t>"))


unittest.main()
