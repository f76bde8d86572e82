// Relations on the events of a small execution, as the axioms of memory models use them.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace stress::order {

constexpr unsigned kEventsMax = 32;

// A relation on events, a row of bits for each.
struct Relation {
    std::array<std::uint32_t, kEventsMax> row{};

    bool has(unsigned a, unsigned b) const { return (row[a] >> b & 1) != 0; }
    void add(unsigned a, unsigned b) { row[a] |= 1U << b; }
    friend Relation operator|(Relation a, const Relation &b)
    {
        for (unsigned i = 0; i < kEventsMax; ++i) a.row[i] |= b.row[i];
        return a;
    }
    // Composition.
    friend Relation operator*(const Relation &a, const Relation &b)
    {
        Relation result;
        for (unsigned i = 0; i < kEventsMax; ++i)
            for (std::uint32_t rest = a.row[i]; rest != 0; rest &= rest - 1)
                result.row[i] |= b.row[static_cast<unsigned>(std::countr_zero(rest))];
        return result;
    }
    Relation closure() const
    {
        Relation result = *this;
        for (unsigned k = 0; k < kEventsMax; ++k)
            for (unsigned i = 0; i < kEventsMax; ++i)
                if (result.has(i, k)) result.row[i] |= result.row[k];
        return result;
    }
    bool is_acyclic() const
    {
        const Relation all = closure();
        for (unsigned i = 0; i < kEventsMax; ++i)
            if (all.has(i, i)) return false;
        return true;
    }
    Relation inverse() const
    {
        Relation result;
        for (unsigned i = 0; i < kEventsMax; ++i)
            for (unsigned j = 0; j < kEventsMax; ++j)
                if (has(i, j)) result.add(j, i);
        return result;
    }
    template <class Keep> Relation filtered(Keep keep) const
    {
        Relation result;
        for (unsigned i = 0; i < kEventsMax; ++i)
            for (unsigned j = 0; j < kEventsMax; ++j)
                if (has(i, j) && keep(i, j)) result.add(i, j);
        return result;
    }
    Relation optional(unsigned count) const
    {
        Relation result = *this;
        for (unsigned i = 0; i < count; ++i) result.add(i, i);
        return result;
    }
};

} // namespace stress::order
