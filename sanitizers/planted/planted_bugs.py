"""The planted bugs: the heads of the patches in this folder, for the tools that must find them. README.md has the format."""

import pathlib
import re
import shlex

FOLDER = "sanitizers/planted"
BUDGET_MAX_S = 300
TOOLS = ("test", "explore", "explore-race", "simulate", "fuzz")


class BadPatch(Exception):
    """One line that says what is wrong with a patch."""


class PlantedBug:
    """A patch. found_by: the tools that must find it, each with its words. With the tool "test": tree, kind, test,
    budget_s, targets."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = self.path.stem
        text = self.path.read_text(encoding="utf-8")
        at = re.search(r"^(diff --git |--- )", text, re.MULTILINE)
        if at is None:
            raise BadPatch(f"{self.path.name}: has no diff")
        head = text[: at.start()]
        self.bug = self.line(head, "Bug")
        self.found_by = self.tools(head)
        if "test" in self.found_by:
            self.budget_s = self.budget(self.line(head, "Budget"))
            self.tree, self.kind, self.test = self.killer(self.found_by["test"])
            self.targets = self.line(head, "Targets", required=False).split()
        self.files = sorted(set(re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)))
        if not self.files:
            raise BadPatch(f"{self.path.name}: its diff changes no file with the prefixes a/ and b/")

    def line(self, head, key, required=True):
        found = re.findall(rf"^{key}: *(.*\S)", head, re.MULTILINE)
        if len(found) > 1 or (required and not found):
            raise BadPatch(f"{self.path.name}: needs one line '{key}: ...' before the diff, and has {len(found)}")
        return found[0] if found else ""

    def tools(self, head):
        found = {}
        for line in re.findall(r"^Found-by: *(.*\S)", head, re.MULTILINE):
            tool, _, words = line.partition(" ")
            if tool not in TOOLS or not words or tool in found:
                raise BadPatch(
                    f"{self.path.name}: 'Found-by: {line}' should be one of {', '.join(TOOLS)}, each once, and what finds it"
                )
            if tool != "test" and len(words.split()) != 1:
                raise BadPatch(f"{self.path.name}: 'Found-by: {line}' should be 'Found-by: {tool} NAME'")
            found[tool] = words
        if not found:
            raise BadPatch(f"{self.path.name}: needs a line 'Found-by: ...' before the diff, and has none")
        return found

    def budget(self, text):
        match = re.fullmatch(r"(\d+) s", text)
        if not match or not 0 < int(match[1]) <= BUDGET_MAX_S:
            raise BadPatch(f"{self.path.name}: 'Budget: {text}' should be 'Budget: N s', N from 1 to {BUDGET_MAX_S}")
        return int(match[1])

    def killer(self, text):
        """(tree, 'ctest', regex) or (tree, 'run', words)."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise BadPatch(f"{self.path.name}: 'Found-by: test {text}': {error}") from error
        if len(words) == 4 and words[1:3] == ["ctest", "-R"]:
            return words[0], "ctest", words[3]
        if len(words) >= 3 and words[1] == "run":
            return words[0], "run", words[2:]
        raise BadPatch(
            f"{self.path.name}: 'Found-by: test {text}' should be 'test TREE ctest -R REGEX' or 'test TREE run PROGRAM ...'"
        )

    def killer_text(self):
        return f"{self.tree}: {self.test if self.kind == 'ctest' else ' '.join(self.test)}"


def read_all(root, tool=None):
    """(planted bugs by name, errors): all, or those that the tool must find."""
    bugs, errors = {}, []
    for path in sorted((pathlib.Path(root) / FOLDER).glob("*.patch")):
        try:
            bug = PlantedBug(path)
            if tool is None or tool in bug.found_by:
                bugs[path.stem] = bug
        except BadPatch as error:
            errors.append(str(error))
    return bugs, errors
