// The slots of a run. They hold the records of live blocks while one or more threads work on them.
//
// blocks[s] belongs to the thread whose op on slot s has its turn. turns[s] is the link of the last linked op done on
// the slot; 0 before the first. They are two arrays because most slots are never linked.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/base/mapped.h"
#include "engine/op/block.h"

namespace stress {

struct Slots {
    explicit Slots(std::size_t count) : blocks(count), turns(count) {}

    Mapped<Block> blocks;
    Mapped<std::atomic<std::uint32_t>> turns;
};

}  // namespace stress
