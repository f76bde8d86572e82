"""Writes the input of the compiler tests into the current folder: C functions, C++ templates, small files for LTO."""

import random

rng = random.Random(19)
OPERATORS = ["+", "-", "*", "^", "|", "&"]


def expression(depth):
    if depth == 0:
        return rng.choice(["a", "b", "c", str(rng.randrange(1, 1000))])
    return f"({expression(depth - 1)} {rng.choice(OPERATORS)} {expression(depth - 1)})"


def c_function(number):
    lines = [f"unsigned f{number}(unsigned a, unsigned b, unsigned c)", "{", "    unsigned t[8] = { 0 };"]
    for _ in range(6):
        lines.append(f"    for (unsigned i = 0; i < (a & 7); i++) t[i] += {expression(3)} + i;")
        lines.append(
            f"    switch (b % 5) {{ case 0: c += {expression(2)}; break; case 3: a ^= {expression(2)}; break; }}"
        )
    lines += ["    return t[0] + t[3] + t[7] + c;", "}"]
    return "\n".join(lines)


def write(name, text):
    with open(name, "w", encoding="ascii") as file:
        file.write(text + "\n")


FUNCTIONS = 24
write(
    "functions.c",
    "\n".join(
        [c_function(number) for number in range(FUNCTIONS)]
        + ["unsigned all(unsigned a) { return " + " + ".join(f"f{n}(a, a + {n}, 3)" for n in range(FUNCTIONS)) + "; }"]
    ),
)

write(
    "templates.cc",
    """
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

extern "C" unsigned all(unsigned);

template <int N> struct Tag { int value = N; };
template <class... T> auto sum(const std::tuple<T...> &t) {
    return std::apply([](const auto &...x) { return (x.value + ... + 0); }, t);
}
template <class Sequence> struct Build;
template <int... N> struct Build<std::integer_sequence<int, N...>> { using type = std::tuple<Tag<N>...>; };
template <int N> int level() {
    std::map<std::string, std::vector<Tag<N>>> names;
    for (int i = 0; i < N % 7 + 2; i++) names[std::to_string(i)].resize(i);
    std::variant<int, std::string, Tag<N>> any = std::to_string(N);
    any = Tag<N>{};
    int total = sum(typename Build<std::make_integer_sequence<int, N>>::type{});
    for (auto &[name, tags] : names) total += int(name.size() + tags.size());
    return total + std::visit([](auto &x) { return int(sizeof x > 4); }, any);
}
template <int... N> int levels(std::integer_sequence<int, N...>) { return (level<N + 1>() + ... + 0); }

int main() {
    std::unordered_map<int, std::unique_ptr<std::string>> boxes;
    for (int i = 0; i < 20000; i++) boxes[i * 7919 % 5000] = std::make_unique<std::string>(i % 90, 'x');
    std::vector<std::size_t> sizes;
    for (auto &[key, box] : boxes) sizes.push_back(box->size() + key);
    std::sort(sizes.begin(), sizes.end());
    std::printf("%u %d %zu %zu\\n", all(5), levels(std::make_integer_sequence<int, 4>{}), sizes.front(), sizes.back());
}
""",
)

for part in range(4):
    write(
        f"lto_{part}.cc",
        f"#include <vector>\n#include <cstdio>\nint g{part}(int n) {{ std::vector<int> v; "
        f"for (int i = 0; i < n; i++) v.push_back(i * {part + 2}); return v.back(); }}\n"
        + (
            "int g1(int); int g2(int); int g3(int);\n"
            'int main() { std::printf("%d\\n", g0(9) + g1(10) + g2(11) + g3(12)); }'
            if part == 0
            else ""
        ),
    )
