# libfmt, by its headers alone.
include(${CMAKE_CURRENT_LIST_DIR}/host_headers.cmake)
host_headers(fmt::fmt fmt)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
set(fmt_FOUND TRUE)
