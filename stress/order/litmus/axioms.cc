#include "order/litmus/axioms.h"

#include <algorithm>
#include <array>

#include "order/litmus/relation.h"

namespace stress::order {
namespace {

constexpr unsigned kInitial = ~0U; // thread of the stores that were there before

struct Node {
    unsigned thread = kInitial, location = 0;
    LitmusStep step;
    bool is_read = false, is_write = false, is_plain = false; // is_write: also of a compare-exchange that succeeded
    bool must_succeed = false, must_fail = false; // a compare-exchange: this part of the enumeration
    litmus_value read = 0, written = 0;
    bool is_known = false; // the values
    int from = -1; // what it reads from
    unsigned order = 0; // of what it did
};

bool acquires(const Node &node)
{
    return !node.is_plain && (node.order == 1 || node.order == 2 || node.order >= 4);
}
bool releases(const Node &node)
{
    return !node.is_plain && node.order >= 3;
}
bool is_serial(const Node &node)
{
    return node.thread != kInitial && !node.is_plain && node.order == 5;
}
bool is_fence(const Node &node)
{
    return node.thread != kInitial && node.step.kind == LITMUS_FENCE;
}

class Enumeration {
  public:
    Enumeration(const LitmusProgram &program, AxiomRules rules) : program_(program), rules_(rules) {}

    LitmusAllowed run()
    {
        for (unsigned location = 0; location < litmus_locations().size(); ++location) {
            for (const auto &thread : program_)
                for (const LitmusStep &step : thread) used_[location] |= names(step, location);
            if (used_[location] && litmus_locations()[location].name[1] != '\0') mixed_ = true;
        }
        if (mixed_) {
            allowed_.gave_up = "accesses of several sizes to the same bytes: C and C++ do not define them";
            return allowed_;
        }
        finals_ = litmus_finals(program_);
        choose_path(0, std::vector<std::size_t>(program_.size()), std::vector<unsigned>(program_.size()));
        if (allowed_.outcomes.contains("race")) allowed_.outcomes = {"race"};
        return allowed_;
    }

  private:
    static bool names(const LitmusStep &step, unsigned location)
    {
        return !step.is_test && step.kind != LITMUS_FENCE && step.location == location;
    }

    // Each thread ends at one of its tests, or does all of its steps; `ends` says behind which step.
    void choose_path(unsigned thread, std::vector<std::size_t> ends, const std::vector<unsigned> &unused)
    {
        if (thread == program_.size()) return choose_results(ends);
        for (std::size_t i = 0; i <= program_[thread].size(); ++i) {
            if (i < program_[thread].size() && !program_[thread][i].is_test) continue;
            ends[thread] = i;
            choose_path(thread + 1, ends, unused);
        }
    }

    void choose_results(const std::vector<std::size_t> &ends)
    {
        nodes_.clear();
        ends_ = ends;
        for (unsigned location = 0; location < used_.size(); ++location) {
            if (!used_[location]) continue;
            Node first;
            first.location = location;
            first.is_write = first.is_known = true;
            nodes_.push_back(first);
        }
        initial_count_ = static_cast<unsigned>(nodes_.size());
        std::vector<unsigned> compares;
        for (unsigned thread = 0; thread < program_.size(); ++thread) {
            for (std::size_t i = 0; i < ends[thread]; ++i) {
                const LitmusStep &step = program_[thread][i];
                if (step.is_test) continue;
                Node node;
                node.thread = thread;
                node.location = step.location;
                node.step = step;
                node.order = step.order;
                node.is_plain = step.kind != LITMUS_FENCE && step.order == LITMUS_PLAIN;
                node.is_read = step.reads();
                node.is_write = step.kind != LITMUS_LOAD && step.kind != LITMUS_FENCE;
                if (step.kind == LITMUS_COMPARE || step.kind == LITMUS_COMPARE_WEAK)
                    compares.push_back(static_cast<unsigned>(nodes_.size()));
                nodes_.push_back(node);
            }
        }
        for (std::uint32_t fails = 0; fails < 1U << compares.size(); ++fails) {
            for (unsigned i = 0; i < compares.size(); ++i) {
                Node &node = nodes_[compares[i]];
                node.must_fail = (fails >> i & 1) != 0;
                node.must_succeed = !node.must_fail;
                node.is_write = node.must_succeed;
                node.order = node.must_fail ? node.step.failure : node.step.order;
            }
            make_sequence();
            choose_sources(0);
        }
    }

    void make_sequence()
    {
        sequence_ = {};
        for (unsigned i = 0; i < nodes_.size(); ++i)
            for (unsigned j = i + 1; j < nodes_.size(); ++j)
                if (nodes_[i].thread == nodes_[j].thread && nodes_[i].thread != kInitial) sequence_.add(i, j);
    }

    void choose_sources(unsigned index)
    {
        while (index < nodes_.size() && !nodes_[index].is_read) ++index;
        if (index == nodes_.size()) return judge_sources();
        for (unsigned i = 0; i < nodes_.size(); ++i) {
            if (i == index || !nodes_[i].is_write || nodes_[i].location != nodes_[index].location) continue;
            nodes_[index].from = static_cast<int>(i);
            choose_sources(index + 1);
        }
    }

    // The registers of the thread before this node, in order.
    std::vector<const Node *> registers(unsigned thread, unsigned end) const
    {
        std::vector<const Node *> found;
        for (unsigned i = initial_count_; i < end; ++i)
            if (nodes_[i].thread == thread && nodes_[i].is_read) found.push_back(&nodes_[i]);
        return found;
    }

    static litmus_value cut(const Node &node, litmus_value value)
    {
        const unsigned bits = litmus_locations()[node.location].bytes * 8;
        return bits >= 128 ? value : value & ((litmus_value{1} << bits) - 1);
    }

    // Computes the values. False: some depend on themselves.
    bool evaluate()
    {
        for (unsigned i = initial_count_; i < nodes_.size(); ++i)
            nodes_[i].is_known = nodes_[i].step.kind == LITMUS_FENCE;
        for (bool has_changed = true; has_changed;) {
            has_changed = false;
            for (unsigned i = initial_count_; i < nodes_.size(); ++i) {
                Node &node = nodes_[i];
                if (node.is_known) continue;
                if (node.is_read && !nodes_[static_cast<unsigned>(node.from)].is_known) continue;
                litmus_value operand = node.step.value;
                if (node.step.from_register >= 0) {
                    const Node &source = *registers(node.thread, i)[static_cast<unsigned>(node.step.from_register)];
                    if (!source.is_known) continue;
                    operand += source.read;
                }
                if (node.is_read) node.read = nodes_[static_cast<unsigned>(node.from)].written;
                node.written = cut(node, node.step.kind == LITMUS_ADD ? node.read + operand : operand);
                node.is_known = has_changed = true;
            }
        }
        return std::all_of(nodes_.begin(), nodes_.end(), [](const Node &node) { return node.is_known; });
    }

    // Whether the values take the path, and the compare-exchanges the results, of this part of the enumeration.
    bool is_as_chosen() const
    {
        for (const Node &node : nodes_) {
            const bool is_equal = node.is_read && node.read == cut(node, node.step.expected);
            if (node.must_succeed && !is_equal) return false;
            if (node.must_fail && is_equal && node.step.kind != LITMUS_COMPARE_WEAK) return false;
        }
        for (unsigned thread = 0; thread < program_.size(); ++thread) {
            const auto read = registers(thread, static_cast<unsigned>(nodes_.size()));
            for (std::size_t i = 0; i < program_[thread].size() && i <= ends_[thread]; ++i) {
                const LitmusStep &step = program_[thread][i];
                if (!step.is_test) continue;
                const litmus_value value = read[static_cast<unsigned>(step.from_register)]->read;
                const bool holds = step.is_greater ? value > step.expected : value == step.expected;
                if (holds != (i < ends_[thread])) return false;
            }
        }
        return true;
    }

    void judge_sources()
    {
        if (!evaluate() || !is_as_chosen()) return;
        from_ = {};
        for (unsigned i = 0; i < nodes_.size(); ++i)
            if (nodes_[i].is_read) from_.add(static_cast<unsigned>(nodes_[i].from), i);
        if (!(sequence_ | from_).is_acyclic()) return; // no thin air
        make_happens_before();
        if (!happens_before_.is_acyclic()) return;
        orders_.clear();
        choose_order(0);
    }

    // Release sequences and synchronizes-with (C++20 [intro.races] p5, [atomics.order] p2, [atomics.fences]).
    void make_happens_before()
    {
        Relation synchronizes;
        const auto count = static_cast<unsigned>(nodes_.size());
        for (unsigned head = initial_count_; head < count; ++head) {
            const Node &first = nodes_[head];
            if (!first.is_write || first.is_plain) continue;
            std::uint32_t sequence = 1U << head;
            if (rules_.own_stores_release)
                for (unsigned i = 0; i < count; ++i)
                    if (sequence_.has(head, i) && nodes_[i].is_write && !nodes_[i].is_plain &&
                        nodes_[i].location == first.location)
                        sequence |= 1U << i;
            for (bool has_grown = true; has_grown;) {
                has_grown = false;
                for (unsigned i = 0; i < count; ++i) {
                    if (!nodes_[i].is_read || !nodes_[i].is_write || (sequence >> i & 1) != 0) continue;
                    if ((sequence >> nodes_[i].from & 1) == 0) continue;
                    sequence |= 1U << i;
                    has_grown = true;
                }
            }
            for (unsigned reader = 0; reader < count; ++reader) {
                if (!nodes_[reader].is_read || nodes_[reader].is_plain || (sequence >> nodes_[reader].from & 1) == 0)
                    continue;
                for (unsigned a = 0; a < count; ++a) {
                    const bool is_source = a == head
                                               ? releases(first)
                                               : is_fence(nodes_[a]) && releases(nodes_[a]) && sequence_.has(a, head);
                    if (!is_source) continue;
                    for (unsigned b = 0; b < count; ++b)
                        if (b == reader ? acquires(nodes_[b])
                                        : is_fence(nodes_[b]) && acquires(nodes_[b]) && sequence_.has(reader, b))
                            synchronizes.add(a, b);
                }
            }
        }
        synchronizes_ = synchronizes;
        Relation direct = sequence_ | synchronizes;
        for (unsigned i = 0; i < initial_count_; ++i)
            for (unsigned j = initial_count_; j < count; ++j) direct.add(i, j);
        happens_before_ = direct.closure();
    }

    // Modification orders, location by location. Read-modify-writes follow what they read.
    void choose_order(unsigned initial)
    {
        if (initial == initial_count_) return judge();
        std::vector<unsigned> writes;
        for (unsigned i = initial_count_; i < nodes_.size(); ++i)
            if (nodes_[i].is_write && nodes_[i].location == nodes_[initial].location) writes.push_back(i);
        do {
            std::vector<unsigned> line{initial};
            line.insert(line.end(), writes.begin(), writes.end());
            bool is_adjacent = true;
            for (std::size_t i = 1; i < line.size(); ++i)
                is_adjacent &= !nodes_[line[i]].is_read || nodes_[line[i]].from == static_cast<int>(line[i - 1]);
            if (!is_adjacent) continue;
            Relation order;
            for (std::size_t i = 0; i < line.size(); ++i)
                for (std::size_t j = i + 1; j < line.size(); ++j) order.add(line[i], line[j]);
            orders_.push_back({order, line});
            if (is_coherent()) choose_order(initial + 1);
            orders_.pop_back();
        } while (std::next_permutation(writes.begin(), writes.end()));
    }

    Relation modification() const
    {
        Relation all;
        for (const auto &order : orders_) all = all | order.first;
        return all;
    }
    Relation from_read(const Relation &order) const
    {
        return (from_.inverse() * order).filtered([](unsigned a, unsigned b) { return a != b; });
    }
    Relation coherence(const Relation &order) const { return (from_ | order | from_read(order)).closure(); }
    // No event is coherence-ordered before one that happens before it, or before itself.
    bool is_coherent() const
    {
        const Relation eco = coherence(modification());
        for (unsigned i = 0; i < nodes_.size(); ++i) {
            if (eco.has(i, i)) return false;
            for (unsigned j = 0; j < nodes_.size(); ++j)
                if (happens_before_.has(i, j) && eco.has(j, i)) return false;
        }
        return true;
    }

    void judge()
    {
        const Relation order = modification();
        if (!(rules_.serial == SerialRule::cxx20 ? is_serial_cxx20(order) : is_serial_rc11(order))) return;
        if (has_race()) {
            allowed_.outcomes.insert("race");
            return;
        }
        allowed_.executions++;
        std::vector<std::vector<litmus_value>> read(program_.size());
        for (const Node &node : nodes_)
            if (node.is_read) read[node.thread].push_back(node.read);
        std::vector<litmus_value> last;
        for (const unsigned location : finals_)
            for (const auto &[relation, line] : orders_)
                if (nodes_[line[0]].location == location) last.push_back(nodes_[line.back()].written);
        allowed_.outcomes.insert(litmus_outcome(read, last));
    }

    bool has_race() const
    {
        for (unsigned i = initial_count_; i < nodes_.size(); ++i) {
            for (unsigned j = i + 1; j < nodes_.size(); ++j) {
                const Node &a = nodes_[i], &b = nodes_[j];
                if (is_fence(a) || is_fence(b) || a.location != b.location || a.thread == b.thread) continue;
                if ((!a.is_write && !b.is_write) || (!a.is_plain && !b.is_plain)) continue;
                if (!happens_before_.has(i, j) && !happens_before_.has(j, i)) return true;
            }
        }
        return false;
    }

    // [atomics.order] p4: an order S of the seq_cst operations that agrees with strongly-happens-before, and with the
    // coherence order between them and between what lies before or behind seq_cst fences.
    bool is_serial_cxx20(const Relation &order) const
    {
        const auto both = [&](unsigned a, unsigned b) { return is_serial(nodes_[a]) && is_serial(nodes_[b]); };
        const Relation strongly =
            (sequence_ | synchronizes_.filtered(both) | sequence_ * happens_before_ * sequence_).closure();
        const Relation eco = coherence(order);
        Relation demanded = strongly | eco;
        Relation to_fence, from_fence; // B happens before the fence; the fence happens before A
        for (unsigned i = 0; i < nodes_.size(); ++i) {
            for (unsigned j = 0; j < nodes_.size(); ++j) {
                if (!happens_before_.has(i, j)) continue;
                if (is_fence(nodes_[j]) && is_serial(nodes_[j])) to_fence.add(i, j);
                if (is_fence(nodes_[i]) && is_serial(nodes_[i])) from_fence.add(i, j);
            }
        }
        demanded = demanded | eco * to_fence | from_fence * eco | from_fence * eco * to_fence;
        return demanded.filtered(both).is_acyclic();
    }

    bool is_serial_rc11(const Relation &order) const
    {
        const auto count = static_cast<unsigned>(nodes_.size());
        const auto same = [&](unsigned a, unsigned b) {
            return !is_fence(nodes_[a]) && !is_fence(nodes_[b]) && nodes_[a].location == nodes_[b].location;
        };
        const Relation other = sequence_.filtered([&](unsigned a, unsigned b) { return !same(a, b); });
        const Relation scb =
            sequence_ | other * happens_before_ * other | happens_before_.filtered(same) | order | from_read(order);
        const Relation eco = coherence(order);
        Relation access, fence; // identities
        for (unsigned i = 0; i < count; ++i) {
            if (!is_serial(nodes_[i])) continue;
            (is_fence(nodes_[i]) ? fence : access).add(i, i);
        }
        const Relation maybe = happens_before_.optional(count);
        const Relation base = (access | fence * maybe) * scb * (access | maybe * fence);
        const Relation fences = fence * (happens_before_ | happens_before_ * eco * happens_before_) * fence;
        return (base | fences).is_acyclic();
    }

    const LitmusProgram &program_;
    AxiomRules rules_;
    LitmusAllowed allowed_;
    std::array<bool, 16> used_{};
    bool mixed_ = false;
    std::vector<unsigned> finals_;
    std::vector<std::size_t> ends_;
    std::vector<Node> nodes_; // the initial stores, then the threads' events
    unsigned initial_count_ = 0;
    Relation sequence_, from_, synchronizes_, happens_before_;
    std::vector<std::pair<Relation, std::vector<unsigned>>> orders_;
};

} // namespace

LitmusAllowed litmus_allowed(const LitmusProgram &program, AxiomRules rules)
{
    return Enumeration(program, rules).run();
}

} // namespace stress::order
