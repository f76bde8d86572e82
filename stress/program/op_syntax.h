// How each kind of op is written; used by the printer and the parser.
#pragma once

#include <string_view>

#include "engine/op/op.h"

namespace stress {

enum class OpArguments {
    None,
    Size,
    Block,
    BlockSize,
    CountSize,
    AlignSize,
    BlockCountSize,
    Renew,
    Fork,
    Count,
    Fail,
    Repeat
};

struct OpSyntax {
    std::string_view name;
    OpArguments arguments;
};

inline constexpr OpSyntax kOpSyntax[] = {
#define X(name, text, arguments) {text, OpArguments::arguments},
    STRESS_OP_KINDS(X)
#undef X
};

inline const OpSyntax &op_syntax(OpKind kind)
{
    return kOpSyntax[static_cast<std::size_t>(kind)];
}

inline constexpr std::string_view kRenewHowNames[kRenewHowCount] = {"return", "exit", "cancel", "small_stack",
                                                                    "destructors"};

// The first line of a text, up to the version.
inline constexpr std::string_view kTextHead = "# hakmem ops ";
inline constexpr unsigned kTextVersion = 1;

}  // namespace stress
