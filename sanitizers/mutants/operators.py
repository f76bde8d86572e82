"""The mutants of one C or C++ file, drawn from its syntax tree (tree-sitter). OPERATORS names each operator.

A mutant replaces a region of a function's body by another text. Its mode says how both can be in one program, see
schemata.py: "stmt" for whole statements, "expr" for an expression, "insert" for a statement before the region.
"""

import collections
import dataclasses
import hashlib
import re

import effects
from equivalents import chunk_hash

OPERATORS = {
    "delete_call": "a call whose result is not used is gone",
    "delete_statement": "another statement is gone",
    "swap_neighbours": "two statements in a row trade places",
    "drop_conjunct": "one operand of && or || is gone",
    "drop_recheck": "a condition that was asked before is not asked again",
    "loop_first_pass": "a loop ends after its first pass",
    "loop_loses_last": "a loop ends before its last pass",
    "forget_field": "one of several fields is not set",
    "rmw_load_store": "an atomic read-modify-write is a load and a store",
    "publish_early": "a store that publishes comes before the stores that it publishes",
    "off_by_one": "a limit is one off",
    "drop_divisor": "a division, remainder or shift right is gone",
    "forget_cleanup": "a failing path forgets to undo something, or errno is not set",
    "early_return": "the function returns before one of its statements",
}

# Macros before a function's name, which the grammar takes for types. Blanked before the file is parsed.
ATTRIBUTES = re.compile(
    rb"\bHAK_(?:COLD|NOINLINE|NORETURN|HIDDEN|INLINE|UNWATCHED_INLINE|UNWATCHED|TLS|READS_FRAMES|CXX_RUNTIME|PUBLIC|"
    rb"EXPORT|HOT)\b(?!\()"
)
# Hints to the compiler, to containers and streams, to sanitizers and to a test's scheduler: the release tree cannot see
# that they are gone.
UNSEEN = re.compile(
    r"sync_point|__builtin_prefetch|sanitizer_|poison|static_assert|assert|atomic_signal_fence|\w\.reserve$|setvbuf"
)
LIMIT = re.compile(r"[A-Z][A-Z0-9_]*_(MAX|MIN|COUNT|SLOTS|CAPACITY|LIMIT|LEVELS)|k[A-Z]\w*(Max|Min|Count|Slots|Limit)")
STEPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
FAILURES = re.compile(r"NULL|nullptr|false|-1|E[A-Z]{3,}|errno|error|result|\(void \*\)0")
PLAIN = re.compile(r"NULL|nullptr|false|true|-?[0-9]+u?|E[A-Z]{3,}")
LOAD = re.compile(r"(atomic_load\w*|__atomic_load_n)\(([^,()]*(\([^()]*\))?[^,()]*)|[\w.>\[\]-]+\.load\(")
# The largest value of a type, as a cast and a constant name them.
LARGEST = {
    "int": "INT_MAX",
    "unsigned": "UINT_MAX",
    "long": "LONG_MAX",
    "unsigned long": "ULONG_MAX",
    "size_t": "SIZE_MAX",
    **{f"{sign}int{bits}_t": f"{sign.upper()}INT{bits}_MAX" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
JUMPS = ("break_statement", "continue_statement", "goto_statement", "return_statement")
# Nothing below these can depend on something that is known only at run time, or is code.
FIXED = (
    "static_assert_declaration",
    "array_declarator",
    "enum_specifier",
    "sizeof_expression",
    "alignof_expression",
    "template_argument_list",
    "template_parameter_list",
    "attribute_specifier",
    "attribute_declaration",
    "preproc_def",
    "preproc_function_def",
    "preproc_call",
    "preproc_include",
    "bitfield_clause",
    "gnu_asm_expression",
    "type_descriptor",
    "noexcept",
    "comment",
)


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    operator: str
    function: str
    line: int
    start: int  # bytes of the file
    end: int
    text: str
    mode: str
    key: str  # stays the same while the function's text does
    function_hash: str


def parser_of(name):
    import tree_sitter  # noqa: PLC0415 (installed by general_mutants.tools)
    import tree_sitter_c  # noqa: PLC0415
    import tree_sitter_cpp  # noqa: PLC0415

    grammar = tree_sitter_cpp if name.endswith(".cc") else tree_sitter_c
    return tree_sitter.Parser(tree_sitter.Language(grammar.language()))


def has_call(node):
    return node.type == "call_expression" or any(has_call(each) for each in node.named_children)


def named(node):
    return [child for child in node.named_children if child.type != "comment"]


def is_statement(node):
    return node.type.endswith("_statement") and node.type != "compound_statement" or node.type == "for_range_loop"


class Function:
    """Gathers the mutants of one function."""

    def __init__(self, file, data, node, known):
        self.file, self.data, self.node = file, data, node
        self.body = node.child_by_field_name("body")
        self.name = self.name_of(node)
        self.hash = chunk_hash(data, node.start_byte)
        self.found, self.places = [], collections.Counter()
        self.asked = set()  # conditions and loads so far, in the order of the text
        self.known = known  # what functions of the tree read and set

    def name_of(self, node):
        at = node.child_by_field_name("declarator")
        while at is not None and at.type not in ("identifier", "field_identifier", "qualified_identifier"):
            at = at.child_by_field_name("declarator") or next(iter(named(at)), None)
        return self.text(at) if at is not None else "?"

    def text(self, node):
        return self.data[node.start_byte : node.end_byte].decode()

    def span(self, start, end):
        return self.data[start:end].decode()

    def add(self, operator, start, end, text, mode):
        before = self.span(start, end)
        place = " ".join([self.file, operator, self.name, self.hash, *before.split(), "->", *text.split()])
        self.places[place] += 1
        key = hashlib.sha256(f"{place} {self.places[place]}".encode()).hexdigest()[:12]
        line = self.data.count(b"\n", 0, start) + 1
        self.found.append(Mutant(self.file, operator, self.name, line, start, end, text, mode, key, self.hash))

    def operands(self, node, sign):
        """The texts of what && or || joins at the top of an expression."""
        while node.type == "parenthesized_expression" and len(named(node)) == 1:
            node = named(node)[0]
        if node.type != "binary_expression" or self.text(node.child_by_field_name("operator")) != sign:
            return {self.text(node)}
        return self.operands(node.child_by_field_name("left"), sign) | self.operands(
            node.child_by_field_name("right"), sign
        )

    def is_of_other_build(self, node):
        """Whether the expression is constant in a release library without a sanitizer, as VALIDATE && x and !ASAN || x
        are. What it guards is not in that library, which would not link without the guard (at -O0 not with a mutant of
        the whole either)."""
        builds = {"VALIDATE", "ASAN", "MSAN"}
        return bool(self.operands(node, "&&") & builds or self.operands(node, "||") & {f"!{each}" for each in builds})

    def replace(self, operator, node, text, mode="stmt"):
        if mode == "expr" and self.is_of_other_build(node):
            return
        self.add(operator, node.start_byte, node.end_byte, text, mode)

    # --- statements ---

    def called(self, node):
        """The name of the function that an expression statement calls, or ""."""
        inner = next(iter(named(node)), None)
        if inner is None or inner.type != "call_expression":
            return ""
        return self.text(inner.child_by_field_name("function"))

    def assigned(self, node):
        """The left side of an expression statement that assigns, or ""."""
        inner = next(iter(named(node)), None)
        if node.type != "expression_statement" or inner is None or inner.type != "assignment_expression":
            return ""
        return self.text(inner.child_by_field_name("left"))

    def is_field_of_run(self, node):
        """Whether a neighbour sets another field of the same object."""
        base = re.match(r"(.*(?:->|\.))\w+$", self.assigned(node))
        return base is not None and any(
            near is not None and self.assigned(near).startswith(base[1])
            for near in (self.before(node), self.after(node))
        )

    @staticmethod
    def before(node):
        at = node.prev_named_sibling
        while at is not None and at.type == "comment":
            at = at.prev_named_sibling
        return at

    @staticmethod
    def after(node):
        at = node.next_named_sibling
        while at is not None and at.type == "comment":
            at = at.next_named_sibling
        return at

    def on_failing_path(self, node):
        """In a block that ends by returning a failure, or under a label such as fail."""
        if node.parent is None or node.parent.type not in ("compound_statement", "labeled_statement"):
            return False
        if node.parent.type == "labeled_statement":
            return True
        last = named(node.parent)[-1]
        if last.type != "return_statement" or last.start_byte <= node.start_byte or node.parent == self.body:
            return False
        values = named(last)
        return bool(values) and FAILURES.fullmatch(self.text(values[0])) is not None

    def delete(self, node):
        holder = node.parent
        if holder.type == "if_statement" and holder.child_by_field_name("alternative") is None:
            return  # as if the if were gone
        text = self.text(node)
        if UNSEEN.search(text.split("(")[0]) or re.match(r"\(void\)", text):
            return
        if node.type == "return_statement" and named(node):
            return  # the function would end without a result
        if node.type == "break_statement" and self.ends_switch(node):
            return
        if node.parent == self.body and self.after(node) is None and self.is_noreturn():
            return  # what follows in memory would run: often the function that this one calls
        operator = "delete_statement"
        if node.type == "expression_statement":
            if re.match(r"errno\b", self.assigned(node)) or self.on_failing_path(node):
                operator = "forget_cleanup"
            elif self.called(node):
                operator = "delete_call"
            elif self.is_field_of_run(node):
                operator = "forget_field"
        self.replace(operator, node, "")

    def ends_switch(self, node):
        case = node.parent
        return case.type == "case_statement" and self.after(node) is None and self.after(case) is None

    def is_local(self, name):
        """A variable of the function that nothing else can reach, as far as the function's text shows."""
        text = self.text(self.body)
        return re.search(rf"&\s*{name}\b|\[[&=]\]", text) is None and any(
            re.search(rf"\b{name}\b", self.text(declarator).partition("=")[0]) is not None
            for declaration in self.declarations(self.body)
            if "static" not in self.text(declaration).split()
            for declarator in declaration.children_by_field_name("declarator")
            if "*" not in self.text(declarator).partition("=")[0] and "[" not in self.text(declarator).partition("=")[0]
        )

    def declarations(self, node):
        if node.type == "declaration":
            return [node]
        return [each for child in node.named_children for each in self.declarations(child)]

    def effect(self, node):
        found = effects.effect_of(node, self.text)
        found.absorb_calls(self.known, self.file)
        return found

    def depends(self, first, second):
        """Whether the order of two expression statements can matter: a call, or one names what the other sets."""
        if effects.independent(self.effect(first), self.effect(second)):
            return False
        texts = self.text(first), self.text(second)
        for mine, other in ((first, second), (second, first)):
            name = re.fullmatch(r"(\w+)\s*=[^=].*", self.text(mine), re.DOTALL)
            if name and not has_call(mine) and self.is_local(name[1]):
                if re.search(rf"\b{name[1]}\b", self.text(other)) is None:
                    set_by_other = re.split(r"\W+", self.assigned(other)) if not has_call(other) else []
                    words = re.split(r"\W+", self.text(mine).partition("=")[2])
                    if all(word.isdigit() or word in ("", "true", "false", "NULL", "nullptr") for word in words):
                        return False
                    if set_by_other and not set(words) & set(set_by_other):
                        return False
        if any(has_call(each) for each in (first, second)):
            return not any(UNSEEN.search(text.split("(")[0]) for text in texts)
        sets = [re.split(r"\W+", self.assigned(each)) for each in (first, second)]
        return any(name and name in re.split(r"\W+", text) for name in sets[0] for text in texts[1:]) or any(
            name and name in re.split(r"\W+", texts[0]) for name in sets[1]
        )

    def swap(self, node):
        near = self.after(node)
        if near is None or near.type != "expression_statement" or not self.depends(node, near):
            return
        if any(re.fullmatch(r"\(void\)\s*\w+;", self.text(each)) for each in (node, near)):
            return  # it does nothing
        self.add("swap_neighbours", node.start_byte, near.end_byte, f"{self.text(near)} {self.text(node)}", "stmt")

    def publish(self, node):
        text = self.text(node)
        if not re.match(r"(__)?atomic_store\w*\(|[\w.>\[\]-]+\.store\(", text) or not re.search(
            r"release|seq_cst|RELEASE|SEQ_CST", text
        ):
            return
        first, at = None, self.before(node)
        while at is not None and at.type == "expression_statement" and self.assigned(at):
            first, at = at, self.before(at)
        if first is not None:
            before = self.span(first.start_byte, node.start_byte)
            self.add("publish_early", first.start_byte, node.end_byte, f"{text} {before}", "stmt")

    def is_noreturn(self):
        line = self.data.rfind(b"\n", 0, self.node.start_byte) + 1  # the blanked attributes are before the node
        return re.search(rb"NORETURN|noreturn", self.data[line : self.body.start_byte]) is not None

    def returns_early(self, node):
        """Before a statement of the function's own block, but the first and a plain return."""
        if node.parent != self.body or self.before(node) is None or self.is_noreturn():
            return  # in a noreturn function the compiler takes what would return for code that is not reached
        kind = self.node.child_by_field_name("type")
        declarator = self.node.child_by_field_name("declarator")
        if kind is not None and self.text(kind) == "void" and declarator.type != "pointer_declarator":
            text = "return;"
        else:
            value = next(
                (
                    self.text(each)
                    for each in self.all_of(self.body, "return_statement")
                    if named(each) and PLAIN.fullmatch(self.text(named(each)[0]))
                ),
                None,
            )
            if value is None or self.text(node) == value:
                return
            text = value
        if self.text(node).startswith("return"):
            return
        self.add("early_return", node.start_byte, node.start_byte, text, "insert")

    def all_of(self, node, kind):
        if node.type == kind:
            yield node
        for child in node.named_children:
            yield from self.all_of(child, kind)

    # --- loops ---

    def loop(self, node):
        condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        if body is None:
            return
        if node.type == "do_statement":
            self.replace("loop_first_pass", node, f"do {self.text(body)} while (0);")
            return
        if node.type == "for_range_loop":
            head = self.span(node.start_byte, body.start_byte)
            text = f"int hak_pass = 0; {head}{{ if (hak_pass++ != 0) break; {self.text(body)} }}"
            self.replace("loop_first_pass", node, text)
            return
        asked = self.text(condition) if condition is not None else "1"
        if node.type == "while_statement":
            self.replace(
                "loop_first_pass", node, f"int hak_pass = 0; while (hak_pass++ == 0 && {asked}) {self.text(body)}"
            )
            return
        head = self.span(node.start_byte, condition.start_byte if condition is not None else body.start_byte)
        if condition is None:
            return  # for (;;) ends by a jump
        rest = self.span(condition.end_byte, node.end_byte)
        self.replace("loop_first_pass", node, f"int hak_pass = 0; {head}hak_pass++ == 0 && ({asked}){rest}")
        step = self.stepped(node.child_by_field_name("update"), body)
        if step is not None and re.search(rf"\b{step[0]}\b", asked):
            ahead = re.sub(rf"\b{step[0]}\b", lambda _: f"({step[1]})", asked)
            self.replace("loop_loses_last", condition, f"({asked}) && ({ahead})", "expr")

    def stepped(self, update, body):
        """(variable, its next value) of the update of a for statement with this body; None: it is not that simple."""
        if update is None:
            return None
        text = self.text(update)
        simple = re.fullmatch(r"(?:\+\+|--)?(\w+)(?:\+\+|--)?", text)
        if simple:
            return simple[1], f"{simple[1]} {'+' if '+' in text else '-'} 1"
        changed = re.fullmatch(r"(\w+) ([-+*/&|^]|<<|>>)?= (.+)", text, re.DOTALL)
        if not changed:
            return None
        if changed[2] is not None:
            return changed[1], f"{changed[1]} {changed[2]} ({changed[3]})"
        # Where the body keeps the next value in a variable, the condition is asked before it is set.
        kept = [
            self.text(each.child_by_field_name("right"))
            for each in self.all_of(body, "assignment_expression")
            if self.text(each.child_by_field_name("left")) in re.findall(r"\w+", changed[3])
        ]
        if kept and (len(kept) > 1 or not changed[3].isidentifier()):
            return None
        return changed[1], kept[0] if kept else changed[3]

    # --- conditions ---

    def seen_before(self, node):
        """Whether a load or a call of this text came earlier in the function."""
        return any(text in self.asked for text in self.questions(node))

    def questions(self, node):
        text = self.text(node)
        loads = {re.sub(r"\s+", " ", match[0]) for match in LOAD.finditer(text)}
        calls = {
            self.text(each)
            for each in self.all_of(node, "call_expression")
            if not re.match(r"HAK_|atomic_|__", self.text(each))
        }
        return loads | calls

    def condition(self, node):
        asked = node.child_by_field_name("condition")
        if asked is None:
            return
        inner = asked
        while inner.type in ("parenthesized_expression", "condition_clause") and len(named(inner)) == 1:
            inner = named(inner)[0]
        if self.is_chain(inner) or not self.seen_before(inner):
            return
        body = node.child_by_field_name("consequence") or node.child_by_field_name("body")
        last = named(body)[-1] if body is not None and body.type == "compound_statement" and named(body) else body
        never = node.type != "if_statement" or (last is not None and last.type in JUMPS)
        self.replace("drop_recheck", inner, "0" if never else "1", "expr")

    def is_chain(self, node):
        return node.type == "binary_expression" and self.text(node.child_by_field_name("operator")) in ("&&", "||")

    def without_widening(self, node):
        """The text; without a cast of the largest value of a type to a type that has all sizes."""
        cast = re.fullmatch(r"\((?:size_t|uint64_t|unsigned long)\)(\w+)", self.text(node))
        return cast[1] if cast and cast[1] in LARGEST.values() else self.text(node)

    def without_narrowing(self, node, other):
        """The text; without a cast to the type whose largest value the other one is."""
        cast = re.fullmatch(r"\(([a-z_0-9 ]+)\)(\w+)", self.text(node))
        return cast[2] if cast and self.text(other) == LARGEST.get(cast[1]) else self.text(node)

    def is_same_where_equal(self, node):
        """Whether the comparison chooses between values that are the same where its sides are equal, such as the lesser
        one, or a difference and 0: then it does not matter on which side equality is."""
        choice = node.parent
        while choice.type in ("parenthesized_expression", "condition_clause"):
            choice = choice.parent
        if choice.type == "if_statement":  # if (x > most) most = x;
            body = self.text(choice.child_by_field_name("consequence")).strip("{} \n")
            sides = [self.text(node.child_by_field_name(side)) for side in ("left", "right")]
            return choice.child_by_field_name("alternative") is None and body in (
                f"{sides[0]} = {sides[1]};",
                f"{sides[1]} = {sides[0]};",
            )
        if (
            choice.type != "conditional_expression"
            or node.start_byte >= choice.child_by_field_name("consequence").start_byte
        ):
            return False
        left, right = (self.without_widening(node.child_by_field_name(side)) for side in ("left", "right"))
        parts = [choice.child_by_field_name(part) for part in ("consequence", "alternative")]
        chosen = {self.without_narrowing(each, other) for each, other in (parts, reversed(parts))}
        if parts[1].type == "conditional_expression" and self.text(parts[0]) == right:  # x < low ? low : x < high ? ...
            inner = {self.text(parts[1].child_by_field_name(part)) for part in ("consequence", "alternative")}
            return left in inner
        return chosen in ({left, right}, {f"{left} - {right}", "0"}, {f"{right} - {left}", "0"})

    def is_count_of_shift(self, node):
        """Whether it is N % 64 bits by which a word is shifted: the processor takes N modulo 64. UBSan tells them apart."""
        outer = node.parent
        return (
            re.fullmatch(
                r"%\s*(64|WORD_BITS)", self.text(node)[len(self.text(node.child_by_field_name("left"))) :].strip()
            )
            is not None
            and outer.type == "binary_expression"
            and outer.child_by_field_name("right") == node
            and self.text(outer.child_by_field_name("operator")) in ("<<", ">>")
        )

    def binary(self, node):
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = self.text(node.child_by_field_name("operator"))
        texts = self.text(left), self.text(right)
        if sign in ("&&", "||"):
            for kept, dropped in ((left, right), (right, left)):
                again = dropped is right and self.seen_before(dropped)
                self.replace("drop_recheck" if again else "drop_conjunct", node, f"!!({self.text(kept)})", "expr")
        elif sign in STEPPED and not self.is_same_where_equal(node):
            self.replace("off_by_one", node, f"{texts[0]} {STEPPED[sign]} {texts[1]}", "expr")
        elif sign in ("/", "%", ">>") and not self.is_count_of_shift(node):
            self.replace("drop_divisor", node, texts[0], "expr")
        if sign in (*STEPPED, "==", "!=", "%"):
            for each in (left, right):
                if each.type == "identifier" and LIMIT.fullmatch(self.text(each)):
                    self.replace("off_by_one", each, f"{self.text(each)} - 1", "expr")

    # --- atomics and initialisers ---

    def call(self, node):
        name = self.text(node.child_by_field_name("function"))
        words = [self.text(each) for each in named(node.child_by_field_name("arguments"))]
        member = re.fullmatch(r"(.+)(?:\.|->)(fetch_\w+|exchange|compare_exchange_\w+)", name, re.DOTALL)
        if member:
            at = f"&{member[1]}" if name[len(member[1])] == "." else member[1]
            name, words = member[2], [at, *words]
            load, store = f"({at})->load()", "({0})->store({1})"
        elif re.match(r"atomic_(fetch|exchange|compare)", name):
            load = f"atomic_load_explicit({words[0]}, memory_order_relaxed)"
            store = "atomic_store_explicit({0}, {1}, memory_order_relaxed)"
        elif re.match(r"__atomic_(fetch|exchange_n|compare_exchange_n|\w+_fetch)", name):
            load, store = (
                f"__atomic_load_n({words[0]}, __ATOMIC_RELAXED)",
                "__atomic_store_n({0}, {1}, __ATOMIC_RELAXED)",
            )
        else:
            return
        kind = "auto" if self.file.endswith(".cc") else "__auto_type"
        text = None
        signs = {"add": "+", "sub": "-", "or": "|", "and": "&", "xor": "^"}
        plain = re.search(r"fetch_(add|sub|or|and|xor)|(add|sub|or|and|xor)_fetch", name)
        if plain:
            new = f"hak_old {signs[plain[1] or plain[2]]} ({words[1]})"
            result = "hak_old" if plain[1] else new
            text = f"({{ {kind} hak_old = {load}; {store.format(words[0], new)}; {result}; }})"
        elif "compare_exchange" in name and len(words) > 2:
            want = f"(*{words[1]})" if not member else words[1]
            text = (
                f"({{ {kind} hak_old = {load}; _Bool hak_same = hak_old == {want}; "
                f"if (hak_same) {store.format(words[0], words[2])}; else {want} = hak_old; hak_same; }})"
            )
            text = text.replace("_Bool", "bool") if kind == "auto" else text
        elif "exchange" in name:
            text = f"({{ {kind} hak_old = {load}; {store.format(words[0], words[1])}; hak_old; }})"
        if text is not None:
            self.replace("rmw_load_store", node, text, "expr")

    def initialiser(self, node):
        pairs = [each for each in named(node) if each.type == "initializer_pair"]
        for pair in pairs if len(pairs) > 1 else []:
            value = pair.child_by_field_name("value")
            if (
                value is not None
                and value.type != "initializer_list"
                and self.text(value) not in ("0", "NULL", "false")
            ):
                self.replace("forget_field", value, "0", "expr")

    # --- the walk ---

    def is_fixed(self, node):
        if node.type in FIXED:
            return True
        if node.type == "declaration":
            return re.match(r"(static|constexpr|extern)\b", self.text(node)) is not None
        return False

    def walk(self, node):
        if self.is_fixed(node):
            return
        if node.type == "expression_statement":
            self.swap(node)
            self.publish(node)
        if is_statement(node) and node.type not in ("labeled_statement", "case_statement", "switch_statement"):
            self.returns_early(node)
            self.delete(node)
        if node.type in LOOPS:
            self.loop(node)
        if node.type in ("if_statement", "while_statement", "do_statement"):
            self.condition(node)
        if node.type == "binary_expression":
            self.binary(node)
        if node.type == "call_expression":
            self.call(node)
        if node.type == "initializer_list":
            self.initialiser(node)
        value = node.child_by_field_name("value") if node.type == "case_statement" else None
        for child in node.children:
            if value is not None and child == value:
                continue
            if node.type.startswith("preproc_if") and child == node.child_by_field_name("condition"):
                continue
            self.walk(child)
        if node.type in ("call_expression", "parenthesized_expression"):
            self.asked |= self.questions(node)


def functions(node):
    if node.type == "function_definition":
        yield node
        return
    for child in node.named_children:
        yield from functions(child)


def blank(data):
    return ATTRIBUTES.sub(lambda match: b" " * len(match[0]), data)


def effects_of(files):
    """What the functions of files {name: text} read and set."""

    def tree(name, data):
        return parser_of(name).parse(data).root_node, lambda node: data[node.start_byte : node.end_byte].decode()

    return effects.effects_of({name: tree(name, blank(data)) for name, data in files.items()})


def mutants_of(name, data, known=None):
    """The mutants of a file with this text (bytes), in the order of the text. name is relative to the checkout. known: effects_of
    the tree; by default of this file alone."""
    blanked = blank(data)
    if known is None:
        known = effects_of({name: data})
    found = []
    for node in functions(parser_of(name).parse(blanked).root_node):
        body = node.child_by_field_name("body")
        head = blanked[node.start_byte : body.start_byte] if body is not None else b""
        if body is None or body.type != "compound_statement" or re.search(rb"\bconst(expr|eval)\b", head):
            continue
        function = Function(name, data, node, known)
        function.walk(body)
        found += function.found
    unique = {}
    for each in found:
        unique.setdefault((each.start, each.end, each.text), each)
    return sorted(unique.values(), key=lambda each: (each.start, -each.end))
