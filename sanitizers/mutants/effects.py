"""What statements read and set, by the names of variables and fields, so that operators.py does not ask for a swap that
nothing can see.

A name stands for all memory of that name: two fields of one name count as one, whatever the object. A call stands for
what the called function reads and sets, where its definition is in the tree; what it sets by a pointer that it was given
is what the caller's argument points to, where that is &NAME. Anything else may do anything: a call by a pointer or of
another library, another store by a bare pointer, assembler, an atomic operation that orders others. But what follows a
store that releases may come before it.

Not seen: a struct that is copied as a whole beside a field that is set by a pointer to it, and the members of a union. No
neighbours in alloc/ or in the suite depend on each other by these alone.
"""

import dataclasses
import re

# What a macro does with its arguments, as a function would.
READERS = ("HAK_LIKELY", "HAK_UNLIKELY", "HAK_MINE", "LOAD", "offsetof", "sizeof", "alignof", "static_assert")
WRITERS = ("STORE",)
PURE = re.compile(r"__builtin_(popcount|ctz|clz|bswap|expect)\w*")
ATOMIC = re.compile(r"(?:__)?atomic_(?P<what>load|store|fetch|add_fetch|sub_fetch|or_fetch)\w*")
ORDER = re.compile(r"(?:memory_order|__ATOMIC)_(\w+)")


@dataclasses.dataclass
class Effect:
    reads: set = dataclasses.field(default_factory=set)
    sets: set = dataclasses.field(default_factory=set)
    by_parameter: set = dataclasses.field(default_factory=set)  # numbers of the parameters by which it sets something
    reads_by: set = dataclasses.field(default_factory=set)  # numbers of those by which it reads something
    calls: list = dataclasses.field(default_factory=list)  # (name, what each argument points to: an Effect)
    any: bool = False  # may do anything
    reads_any: bool = False  # reads by a bare pointer
    releases: bool = False

    def absorb(self, other):
        """Whether that adds anything."""
        before = self.size()
        self.reads |= other.reads
        self.sets |= other.sets
        self.any |= other.any
        self.reads_any |= other.reads_any
        self.releases |= other.releases
        return before != self.size()

    def size(self):
        sets = self.reads, self.sets, self.by_parameter, self.reads_by
        return [len(each) for each in sets], self.any, self.reads_any, self.releases

    def read_target(self, target):
        """target: the effect of setting what is read."""
        self.reads |= target.sets
        self.reads_by |= target.by_parameter
        self.reads_any |= target.any

    def absorb_calls(self, known, file):
        """Whether that adds anything. known: see effects_of; file: in which the calls are."""
        before = self.size()
        for name, targets in self.calls:
            of_name = known.get(name, {"": Effect(any=True)})
            for called in [of_name[file]] if file in of_name else of_name.values():
                self.absorb(called)
                for number in called.by_parameter | called.reads_by:
                    target = targets[number] if number < len(targets) else Effect(any=True)
                    if number in called.by_parameter:
                        self.absorb(target)
                        self.by_parameter |= target.by_parameter
                    self.read_target(target)
                if called.sets:  # perhaps fields of what an argument points to, which is known by its own name too
                    for target in targets:
                        self.sets |= target.sets
        return before != self.size()


def independent(first, second):
    """Whether the second of two statements may come before the first, by the rules of the language."""
    if first.any or second.any or second.releases:
        return False
    for mine, other in ((first, second), (second, first)):
        if mine.sets & (other.reads | other.sets) or mine.sets and other.reads_any:
            return False
    return True


class Reader:
    """Gathers the effect of one node. text(node): its source; own: names of variables that only the function sees;
    parameters: the names of the first of them."""

    def __init__(self, text, own=frozenset(), parameters=()):
        self.text, self.own, self.parameters = text, own, list(parameters)
        self.effect = Effect()

    def write(self, node):
        """What an expression denotes is set."""
        is_element = False
        while node.type in ("parenthesized_expression", "subscript_expression"):
            is_element |= node.type == "subscript_expression"
            node = node.child_by_field_name("argument") or node.named_children[0]
        if node.type == "call_expression" and self.text(node).startswith("HAK_MINE("):
            node = node.child_by_field_name("arguments").named_children[0]
        if node.type == "field_expression":
            self.effect.sets.add(self.text(node.child_by_field_name("field")))
        elif node.type == "pointer_expression" and not is_element and self.text(node).startswith("*"):
            self.write_by(node.child_by_field_name("argument"))
        elif node.type != "identifier" or is_element:  # an element of what a pointer may point to
            self.effect.any = True
        elif self.text(node) not in self.own:
            self.effect.sets.add(self.text(node))

    def write_by(self, pointer):
        """What a pointer points to is set."""
        if pointer.type == "pointer_expression" and self.text(pointer).startswith("&"):
            self.write(pointer.child_by_field_name("argument"))
        elif self.text(pointer) in self.parameters:
            self.effect.by_parameter.add(self.parameters.index(self.text(pointer)))
        else:
            self.effect.any = True

    def target_of(self, argument):
        inner = Reader(self.text, self.own, self.parameters)
        inner.write_by(argument)
        return inner.effect

    def call(self, node):
        function = node.child_by_field_name("function")
        arguments = [each for each in node.child_by_field_name("arguments").named_children if each.type != "comment"]
        name = self.text(function)
        atomic = ATOMIC.fullmatch(name)
        if name in WRITERS:
            self.write(arguments[0])
        elif atomic is not None:
            orders = {order.lower() for order in ORDER.findall(self.text(node))}
            if orders == {"release"} and atomic["what"] != "load":
                self.effect.releases = True
            elif orders != {"relaxed"}:
                self.effect.any = True
            if atomic["what"] != "load":
                self.write_by(arguments[0])
            self.effect.read_target(self.target_of(arguments[0]))
        elif function.type != "identifier":
            self.effect.any = True
        elif name not in READERS and PURE.fullmatch(name) is None:
            self.effect.calls.append((name, [self.target_of(each) for each in arguments]))

    def walk(self, node):
        kind = node.type
        if kind == "assignment_expression":
            self.write(node.child_by_field_name("left"))
        elif kind == "update_expression":
            self.write(node.child_by_field_name("argument"))
        elif kind == "init_declarator":
            self.effect.sets |= {self.text(node.child_by_field_name("declarator")).lstrip("*& ")} - self.own
        elif kind == "subscript_expression" and node.child_by_field_name("argument").type == "identifier":
            self.effect.reads_any |= self.text(node.child_by_field_name("argument")) not in self.own
        elif kind == "pointer_expression" and self.text(node).startswith("*"):
            self.effect.read_target(self.target_of(node.child_by_field_name("argument")))
        elif kind == "call_expression":
            self.call(node)
        elif kind in (
            "gnu_asm_expression",
            "lambda_expression",
            "new_expression",
            "delete_expression",
            "goto_statement",
        ):
            self.effect.any = True
        elif kind == "field_identifier" or kind == "identifier" and self.text(node) not in self.own:
            self.effect.reads.add(self.text(node))
        for child in node.named_children:
            self.walk(child)


def effect_of(node, text, own=frozenset(), parameters=()):
    """Without what the functions that it calls do."""
    reader = Reader(text, own, parameters)
    reader.walk(node)
    return reader.effect


def own_names(node, text, kinds=("parameter_declaration", "declaration")):
    """The parameters and variables of a function, in the order of the text."""
    found = []

    def walk(each):
        if each.type in kinds and not text(each).startswith(("static", "extern")):
            for declarator in each.children_by_field_name("declarator"):
                found.extend(re.findall(r"\w+", text(declarator).partition("=")[0].partition("[")[0])[-1:] or [""])
        for child in each.named_children:
            walk(child)

    walk(node)
    return found


def effects_of(trees):
    """{name: {file: effect}} of every function of trees: {file: (root node, text)}. What a file does not define may be any
    function of that name."""
    known = {}
    for file, (root, text) in trees.items():
        for node in definitions(root):
            declarator = node.child_by_field_name("declarator")
            name = re.match(r"[*\s]*(\w+)\(", text(declarator)) if declarator is not None else None
            if name is None:
                continue
            parameters = own_names(declarator, text, ("parameter_declaration",))
            effect = effect_of(node.child_by_field_name("body"), text, set(own_names(node, text)), parameters)
            other = known.setdefault(name[1], {}).setdefault(file, effect)
            if other is not effect:  # of another build
                other.absorb(effect)
                other.by_parameter |= effect.by_parameter
                other.reads_by |= effect.reads_by
                other.calls += effect.calls
    every = [(file, effect) for of_name in known.values() for file, effect in of_name.items()]
    while any([effect.absorb_calls(known, file) for file, effect in every]):
        pass
    return known


def definitions(node):
    if node.type == "function_definition":
        if node.child_by_field_name("body") is not None:
            yield node
        return
    for child in node.named_children:
        yield from definitions(child)
