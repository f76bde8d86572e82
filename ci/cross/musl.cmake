# Toolchain of the preset musl-cxx: zig's compilers, as installed by ci/setup --musl. Their programs are static and run
# here.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
get_filename_component(zig ${CMAKE_CURRENT_LIST_DIR}/../../build/zig ABSOLUTE)
set(CMAKE_C_COMPILER ${zig}/${zig_libc}cc)
set(CMAKE_CXX_COMPILER ${zig}/${zig_libc}c++)

# Uses no library and no header of the host, as in aarch64.cmake.
set(CMAKE_FIND_ROOT_PATH ${zig})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/modules)
