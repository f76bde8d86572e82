#include "order/model/serial.h"

#include <algorithm>
#include <iterator>

namespace stress::order {

void Serial::clear()
{
    for (auto &nodes : followed_) std::fill(std::begin(nodes), std::end(nodes), 0);
    nodes_.clear();
    next_.clear();
    for (auto &nodes : of_thread_) nodes.clear();
    for (auto &nodes : here_) nodes.clear();
    has_fences_ = false;
}

// scb of RC11 has sb, and sb|!=loc; hb; sb|!=loc: A, then an event at another location, which happens before an event at
// another location than B, then B. Of one thread the last node is enough, since its nodes are in order.
void Serial::precede_access(unsigned thread, const Clock &before, const Clock &elsewhere,
                            std::vector<Edge> &edges) const
{
    std::vector<unsigned> fences;
    fences_before(before, fences); // F; hb; sb
    for (const unsigned fence : fences) edges.emplace_back(fence, next());
    for (unsigned i = 0; i < kThreadsMax; ++i) {
        for (auto node = of_thread_[i].rbegin(); node != of_thread_[i].rend(); ++node) {
            const std::uint32_t left_at = nodes_[*node].left_at;
            if (i != thread && (left_at == 0 || left_at > elsewhere.last[i])) continue;
            edges.emplace_back(*node, next());
            break;
        }
    }
}

// sb; hb?; F, and F; hb; F.
void Serial::precede_fence(unsigned thread, const Clock &clock, std::vector<Edge> &edges) const
{
    for (unsigned i = 0; i < kThreadsMax; ++i) {
        for (auto node = of_thread_[i].rbegin(); node != of_thread_[i].rend(); ++node) {
            const std::uint32_t number = nodes_[*node].event.number;
            if (i != thread && number + (nodes_[*node].is_fence ? 0 : 1) > clock.last[i]) continue;
            edges.emplace_back(*node, next());
            break;
        }
    }
}

void Serial::touch(unsigned thread, std::uint32_t number, std::uintptr_t location)
{
    std::erase_if(here_[thread], [&](unsigned node) {
        if (nodes_[node].location == location) return false;
        nodes_[node].left_at = number;
        return true;
    });
}

void Serial::fences_before(const Clock &clock, std::vector<unsigned> &found) const
{
    if (!has_fences_) return;
    for (const auto &nodes : of_thread_) {
        const auto last = std::find_if(nodes.rbegin(), nodes.rend(), [&](unsigned node) {
            return nodes_[node].is_fence && clock.has(nodes_[node].event);
        });
        if (last != nodes.rend()) found.push_back(*last);
    }
}

void Serial::fences_after(Event event, std::vector<unsigned> &found) const
{
    if (!has_fences_) return;
    for (const auto &nodes : of_thread_) {
        const auto first = std::find_if(nodes.begin(), nodes.end(), [&](unsigned node) {
            return nodes_[node].is_fence && nodes_[node].clock.has(event);
        });
        if (first != nodes.end()) found.push_back(*first);
    }
}

void Serial::thin(unsigned thread, std::vector<Edge> &edges) const
{
    constexpr unsigned kNone = ~0U;
    unsigned before[kThreadsMax] = {}, after[kThreadsMax]; // before: with 1 added
    std::copy(std::begin(followed_[thread]), std::end(followed_[thread]), before);
    std::fill(std::begin(after), std::end(after), kNone);
    const unsigned node = next();
    std::erase_if(edges, [&](const Edge &edge) {
        if (edge.second == node) {
            unsigned &last = before[nodes_[edge.first].event.thread];
            last = std::max(last, edge.first + 1);
            return true;
        }
        if (edge.first != node) return false;
        unsigned &first = after[nodes_[edge.second].event.thread];
        first = std::min(first, edge.second);
        return true;
    });
    for (unsigned i = 0; i < kThreadsMax; ++i) {
        if (before[i] > followed_[thread][i]) edges.emplace_back(before[i] - 1, node);
        if (after[i] != kNone) edges.emplace_back(node, after[i]);
    }
}

bool Serial::allows(const std::vector<Edge> &edges) const
{
    // A cycle needs one of the edges. Whatever it leads to must not lead back to where it begins.
    std::vector<unsigned char> seen;
    std::vector<unsigned> open;
    const auto size = nodes_.size() + 1;
    for (const auto &[from, to] : edges) {
        if (to == nodes_.size() &&
            std::none_of(edges.begin(), edges.end(), [&, node = to](const Edge &edge) { return edge.first == node; }))
            continue; // nothing follows the new node
        seen.assign(size, 0);
        open.assign(1, to);
        seen[to] = 1;
        while (!open.empty()) {
            const unsigned node = open.back();
            if (node == from) return false;
            open.pop_back();
            auto visit = [&](unsigned successor) {
                if (seen[successor] == 0) open.push_back(successor);
                seen[successor] = 1;
            };
            if (node < next_.size())
                for (const unsigned successor : next_[node]) visit(successor);
            for (const auto &edge : edges)
                if (edge.first == node) visit(edge.second);
        }
    }
    return true;
}

void Serial::add(const Node &node, const std::vector<Edge> &edges)
{
    of_thread_[node.event.thread].push_back(next());
    if (!node.is_fence) here_[node.event.thread].push_back(next());
    has_fences_ |= node.is_fence;
    nodes_.push_back(node);
    next_.emplace_back();
    add(edges);
    for (const auto &[from, to] : edges) {
        if (to + 1 != next()) continue;
        unsigned &last = followed_[node.event.thread][nodes_[from].event.thread];
        last = std::max(last, from + 1);
    }
}

void Serial::add(const std::vector<Edge> &edges)
{
    for (const auto &[from, to] : edges) {
        auto &successors = next_[from];
        if (std::find(successors.begin(), successors.end(), to) == successors.end()) successors.push_back(to);
    }
}

} // namespace stress::order
