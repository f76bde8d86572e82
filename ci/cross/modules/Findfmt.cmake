# libfmt, by its headers alone.
include(${CMAKE_CURRENT_LIST_DIR}/host_headers.cmake)
host_headers(fmt::fmt fmt)
set(fmt_FOUND ${host_headers_found})
if(fmt_FOUND)
  target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY=1)
endif()
