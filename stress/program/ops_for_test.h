// Lists of ops as text, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "program/op_text.h"

namespace stress {

inline Op on_thread(Op op, std::uint16_t thread)
{
    op.thread = thread;
    return op;
}

// The ops of a text that must parse.
inline OpList ops_of(std::string_view text, std::string head = "")
{
    Program program;
    EXPECT_EQ(program_parse(head + std::string(text), program), "");
    return program.ops;
}

inline std::string text_of(const OpList &ops)
{
    std::string text;
    for (const Op &op : ops) text += op_print(op);
    return text;
}

}  // namespace stress
