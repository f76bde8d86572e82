#define ZSTD_STATIC_LINKING_ONLY // contexts in memory of ours; the library is linked statically
#include <zstd.h>

#include <cstdlib>

#include "program/compress.h"

namespace stress {

bool compress_available()
{
    return true;
}

void compress_append(std::string &out, std::span<const char> bytes, int level)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    const std::size_t before = out.size(), room = ZSTD_compressBound(bytes.size());
    if (context == nullptr) std::abort();
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    out.resize(before + room);
    const std::size_t count = ZSTD_compress2(context, out.data() + before, room, bytes.data(), bytes.size());
    if (ZSTD_isError(count) != 0) std::abort(); // the room is enough for anything
    out.resize(before + count);
    ZSTD_freeCCtx(context);
}

Decompressor::Decompressor()
    : memory_(ZSTD_estimateDCtxSize()), context_(ZSTD_initStaticDCtx(memory_.begin(), memory_.size()))
{}

bool Decompressor::into(std::span<char> out, std::span<const char> frame)
{
    auto *context = static_cast<ZSTD_DCtx *>(context_);
    return ZSTD_decompressDCtx(context, out.data(), out.size(), frame.data(), frame.size()) == out.size();
}

} // namespace stress
