# Toolchain of the preset glibc-2.28: zig's compilers, as installed by ci/setup --musl. They link with the symbols that this
# release of glibc has, whatever the machine's own is.
set(zig_libc gnu-)
include(${CMAKE_CURRENT_LIST_DIR}/musl.cmake)
