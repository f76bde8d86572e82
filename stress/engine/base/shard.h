// --shard I/N: one of N machines takes every Nth item of the work, from the Ith on. Together the shards take each item
// once, and which one takes an item depends on nothing but the list.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stress {

struct Shard {
    std::size_t index = 1, count = 1; // from 1 to count
};

// What is wrong with the text, or nothing.
std::string shard_parse(const std::string &text, Shard &shard);

// Keeps this shard's part of the list. Returns what is wrong, or nothing: a shard without work would prove nothing.
// `what` names the items.
template <typename Item> std::string shard_keep(const Shard &shard, const char *what, std::vector<Item> &items)
{
    if (shard.count > items.size())
        return "--shard: there are " + std::to_string(items.size()) + " " + what + "; take no more shards than that";
    std::vector<Item> part;
    for (std::size_t i = shard.index - 1; i < items.size(); i += shard.count) part.push_back(items[i]);
    items.swap(part);
    return "";
}

} // namespace stress
