# Toolchain of the preset riscv64: see aarch64.cmake.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER riscv64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-riscv64 -L /usr/riscv64-linux-gnu)
# By itself gcc 12 makes no unwind tables for C here, and for C++ those that exceptions need. It calls libatomic for an
# atomic byte. At level 3 each caller in the library needs its frame pointer, which gcc uses for other things here.
set(CMAKE_C_FLAGS_INIT "-fasynchronous-unwind-tables -fno-omit-frame-pointer")
set(CMAKE_CXX_FLAGS_INIT -fasynchronous-unwind-tables)
set(CMAKE_CXX_STANDARD_LIBRARIES_INIT -latomic)

set(CMAKE_FIND_ROOT_PATH /usr/riscv64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/modules)
