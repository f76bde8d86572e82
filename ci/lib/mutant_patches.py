"""The patches of sanitizers/mutants: what stands in their heads. See ci/mutants."""

import pathlib
import re
import shlex

FOLDER = "sanitizers/mutants"
BUDGET_MAX_S = 300


class BadPatch(Exception):
    """One line that says what is wrong with a patch."""


class Mutant:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.name = self.path.stem
        text = self.path.read_text(encoding="utf-8")
        at = re.search(r"^(diff --git |--- )", text, re.MULTILINE)
        if at is None:
            raise BadPatch(f"{self.path.name}: has no diff")
        head = text[: at.start()]
        self.bug = self.line(head, "Bug")
        self.budget_s = self.budget(self.line(head, "Budget"))
        self.tree, self.kind, self.test = self.killer(self.line(head, "Killed-by"))
        self.targets = self.line(head, "Targets", required=False).split()
        self.files = sorted(set(re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)))
        if not self.files:
            raise BadPatch(f"{self.path.name}: its diff changes no file with the prefixes a/ and b/")

    def line(self, head, key, required=True):
        found = re.findall(rf"^{key}: *(.*\S)", head, re.MULTILINE)
        if len(found) > 1 or (required and not found):
            raise BadPatch(f"{self.path.name}: needs one line '{key}: ...' before the diff, and has {len(found)}")
        return found[0] if found else ""

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
            raise BadPatch(f"{self.path.name}: 'Killed-by: {text}': {error}") from error
        if len(words) == 4 and words[1:3] == ["ctest", "-R"]:
            return words[0], "ctest", words[3]
        if len(words) >= 3 and words[1] == "run":
            return words[0], "run", words[2:]
        raise BadPatch(
            f"{self.path.name}: 'Killed-by: {text}' should be 'TREE ctest -R REGEX' or" " 'TREE run PROGRAM ...'"
        )

    def killer_text(self):
        return f"{self.tree}: {self.test if self.kind == 'ctest' else ' '.join(self.test)}"


def read_all(root):
    """(mutants by name, errors)."""
    mutants, errors = {}, []
    for path in sorted((pathlib.Path(root) / FOLDER).glob("*.patch")):
        try:
            mutants[path.stem] = Mutant(path)
        except BadPatch as error:
            errors.append(str(error))
    return mutants, errors
