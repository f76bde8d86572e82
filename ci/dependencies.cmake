# What a tree needs besides libc. Only this file looks for packages and programs (ci/partial checks that). It does so before
# anything is compiled. Each thing that is missing or too old is one line: what, what needs it, the command that installs it,
# and the way without it. All such lines come together, and then the configuration ends.
#
#   hakmem_need_tools()   before project(): CMake's version, the compilers that a preset names, Ninja
#   hakmem_find_all()     after the options: all others. Turns HAKMEM_TESTS off, with a line, if GoogleTest is missing

include_guard(GLOBAL)
cmake_policy(VERSION 3.15...3.25) # until CMakeLists.txt asks for a newer CMake

# Older than these nothing was tried.
set(HAKMEM_CMAKE_OLDEST 3.25)
set(HAKMEM_PYTHON_OLDEST 3.9)
set(HAKMEM_GNU_OLDEST 10)
set(HAKMEM_Clang_OLDEST 14)

function(hakmem_say)
  string(CONCAT line ${ARGN})
  message(NOTICE "hakmem: ${line}")
endfunction()

# hakmem_missing(WHAT INSTALL [WITHOUT]): the tree cannot be made.
function(hakmem_missing what install)
  if(ARGN)
    string(PREPEND ARGN ". Without it: ")
  endif()
  hakmem_say("${what}. Install: ${install}" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY hakmem_missing ${what})
endfunction()

function(hakmem_stop_if_missing)
  get_property(missing GLOBAL PROPERTY hakmem_missing)
  list(LENGTH missing count)
  if(count)
    message(FATAL_ERROR "${count} missing: see the lines above that begin with hakmem:")
  endif()
endfunction()

# --- before project() ------------------------------------------------------------------------------------

# Compilers that presets and toolchains name: PATTERN INSTALL WITHOUT
set(hakmem_llvm "ci/setup --stress, or LLVM 19 from https://apt.llvm.org")
set(hakmem_compilers
  "^clang(\\+\\+)?-[0-9]+$" "${hakmem_llvm}" "cmake --preset release-gcc"
  "^(gcc|g\\+\\+)$" "sudo apt-get install gcc g++" "cmake --preset release"
  "^musl-gcc$" "sudo apt-get install musl-tools" "cmake --preset release"
  "^(aarch64|riscv64)-" "ci/setup --cross" "cmake --preset release"
  "/build/zig/" "ci/setup --musl" "cmake --preset release")

function(hakmem_need_compiler compiler)
  find_program(found NAMES ${compiler} NO_CACHE)
  if(found OR NOT compiler)
    return()
  endif()
  get_filename_component(name "${compiler}" NAME) # a tree that was configured before has the whole path
  set(rows ${hakmem_compilers})
  while(rows)
    list(POP_FRONT rows pattern install without)
    if(name MATCHES "${pattern}" OR compiler MATCHES "${pattern}")
      hakmem_missing("there is no ${compiler}" "${install}" "${without}")
      return()
    endif()
  endwhile()
  hakmem_missing("there is no ${compiler}" "the compiler that CMAKE_C_COMPILER and CMAKE_CXX_COMPILER name")
endfunction()

function(hakmem_need_tools)
  message(STATUS "hakmem: looking for what this tree needs")
  if(CMAKE_VERSION VERSION_LESS HAKMEM_CMAKE_OLDEST)
    hakmem_missing("cmake ${HAKMEM_CMAKE_OLDEST} or newer is needed and this is ${CMAKE_VERSION}"
      "pip install cmake, or from https://apt.kitware.com")
    hakmem_stop_if_missing()
  endif()
  if(CMAKE_TOOLCHAIN_FILE MATCHES "/ci/cross/")
    include(${CMAKE_TOOLCHAIN_FILE}) # which names compilers
  endif()
  hakmem_need_compiler("${CMAKE_C_COMPILER}")
  get_property(missing GLOBAL PROPERTY hakmem_missing)
  if(NOT HAKMEM_C_ONLY AND NOT missing) # the same packages bring both
    hakmem_need_compiler("${CMAKE_CXX_COMPILER}")
  endif()
  if(CMAKE_GENERATOR MATCHES Ninja AND NOT CMAKE_MAKE_PROGRAM)
    find_program(found NAMES ninja ninja-build samu NO_CACHE)
    if(NOT found)
      hakmem_missing("there is no ninja" "sudo apt-get install ninja-build"
        "sudo apt-get install make, and add --fresh -G 'Unix Makefiles' to this command")
    endif()
  elseif(CMAKE_GENERATOR MATCHES Makefiles AND NOT CMAKE_MAKE_PROGRAM)
    find_program(found NAMES gmake make NO_CACHE)
    if(NOT found)
      hakmem_missing("there is no make" "sudo apt-get install make" "leave -G out, and install ninja-build")
    endif()
  endif()
  hakmem_stop_if_missing()
endfunction()

# --- after the options -----------------------------------------------------------------------------------

# clang's objects of -flto need clang's linker, as new as the compiler or newer.
function(hakmem_need_linker)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL Clang OR CMAKE_C_COMPILER MATCHES "/build/zig/")
    return()
  endif()
  string(REGEX MATCH "^[0-9]+" major ${CMAKE_C_COMPILER_VERSION})
  execute_process(COMMAND ${CMAKE_C_COMPILER} -fuse-ld=lld -Wl,--version OUTPUT_VARIABLE text ERROR_VARIABLE text)
  string(REGEX MATCH "LLD ([0-9]+)" found "${text}")
  if(NOT found)
    hakmem_missing("there is no lld for ${CMAKE_C_COMPILER}" "sudo apt-get install lld-${major}" "cmake --preset release-gcc")
  elseif(CMAKE_MATCH_1 LESS major)
    hakmem_missing("lld is ${CMAKE_MATCH_1} and the compiler clang ${major}" "sudo apt-get install lld-${major}"
      "cmake --preset release-gcc")
  endif()
endfunction()

# Packages of the suite: NAME TARGET DEBIAN'S-NAME
set(hakmem_suite_packages
  fmt fmt::fmt libfmt-dev
  CLI11 CLI11::CLI11 libcli11-dev
  nlohmann_json nlohmann_json::nlohmann_json nlohmann-json3-dev)

macro(hakmem_find_suite)
  set(rows ${hakmem_suite_packages})
  while(rows)
    list(POP_FRONT rows name target package)
    find_package(${name} QUIET)
    if(NOT TARGET ${target})
      hakmem_missing("there is no ${name}, which the suite and the tests need" "sudo apt-get install ${package}"
        "-DHAKMEM_SUITE=OFF makes the libraries only")
    endif()
  endwhile()
  # Frames of traces are compressed by libzstd, linked statically so that it takes no memory from the malloc under test. A
  # tree for another machine or another libc has none.
  set(STRESS_ZSTD "")
  if(NOT CMAKE_CROSSCOMPILING)
    find_library(HAKMEM_ZSTD libzstd.a)
    find_path(HAKMEM_ZSTD_INCLUDE zstd.h)
    if(HAKMEM_ZSTD AND HAKMEM_ZSTD_INCLUDE)
      set(STRESS_ZSTD ${HAKMEM_ZSTD})
      set(STRESS_ZSTD_INCLUDE ${HAKMEM_ZSTD_INCLUDE})
    else()
      hakmem_say("there is no libzstd.a: hakmem-stress is built without capture and traces. Install: "
        "sudo apt-get install libzstd-dev")
    endif()
  endif()
endmacro()

# Looked for at each configuration: after ci/setup this tree has its tests.
macro(hakmem_find_gtest)
  find_package(GTest QUIET)
  set(missing "")
  set(install "libgtest-dev libgmock-dev")
  if(CMAKE_CROSSCOMPILING)
    set(install googletest) # its sources
  endif()
  foreach(target gtest gtest_main gmock)
    if(NOT TARGET GTest::${target})
      list(APPEND missing ${target})
    endif()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    hakmem_say("there is no ${missing} of GoogleTest, so this tree has no tests. Install: sudo apt-get install "
      "${install}. Without it: -DHAKMEM_TESTS=OFF ends this line")
    set(HAKMEM_TESTS OFF)
  else()
    include(GoogleTest)
  endif()
endmacro()

macro(hakmem_find_python)
  if(HAKMEM_TESTS OR HAKMEM_INSTALL)
    find_package(Python3 ${HAKMEM_PYTHON_OLDEST} QUIET COMPONENTS Interpreter)
  endif()
  if(Python3_Interpreter_FOUND) # Debian's python3-minimal has the program and few modules
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import json, shutil" RESULT_VARIABLE lacks ERROR_QUIET)
    if(lacks)
      set(Python3_Interpreter_FOUND FALSE)
    endif()
  endif()
  if(NOT Python3_Interpreter_FOUND)
    if(HAKMEM_TESTS)
      hakmem_missing("there is no python3 of version ${HAKMEM_PYTHON_OLDEST} or newer, with its modules, which the tests need"
        "sudo apt-get install python3" "-DHAKMEM_TESTS=OFF")
    elseif(HAKMEM_DEBIAN)
      hakmem_missing("there is no python3 of version ${HAKMEM_PYTHON_OLDEST} or newer, which makes the manual pages"
        "sudo apt-get install python3" "-DHAKMEM_DEBIAN=OFF")
    elseif(HAKMEM_INSTALL)
      hakmem_say("there is no python3 of version ${HAKMEM_PYTHON_OLDEST} or newer: cmake --install brings no manual pages. "
        "Install: sudo apt-get install python3")
    endif()
  endif()
endmacro()

# A profile is read only by the release of LLVM that wrote it.
function(hakmem_is_as_new result path)
  execute_process(COMMAND ${path} --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "^[0-9]+" major ${CMAKE_C_COMPILER_VERSION})
  if(NOT text MATCHES "LLVM version ${major}\\.")
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

# What few trees need.
macro(hakmem_find_others)
  find_program(HAKMEM_CCACHE ccache) # without it a tree takes longer to build again
  if(HAKMEM_PGO)
    string(REGEX MATCH "^[0-9]+" major ${CMAKE_C_COMPILER_VERSION})
    find_program(HAKMEM_PROFDATA NAMES llvm-profdata-${major} llvm-profdata VALIDATOR hakmem_is_as_new)
    if(NOT HAKMEM_PROFDATA)
      hakmem_missing("there is no llvm-profdata ${major}, which HAKMEM_PGO needs" "sudo apt-get install llvm-${major}"
        "cmake --preset release")
    endif()
  endif()
  if(HAKMEM_DEBIAN)
    find_program(HAKMEM_GZIP gzip)
    find_program(HAKMEM_SHLIBDEPS dpkg-shlibdeps)
    if(NOT HAKMEM_GZIP OR NOT HAKMEM_SHLIBDEPS)
      hakmem_missing("there is no gzip or no dpkg-shlibdeps, which HAKMEM_DEBIAN needs" "ci/setup --packages"
        "cmake --preset release")
    endif()
  endif()
  if(HAKMEM_FUZZ)
    find_file(HAKMEM_AFL_DRIVER libAFLDriver.a PATHS /usr/lib/afl /usr/local/lib/afl)
    find_file(HAKMEM_AFL_RUNTIME afl-compiler-rt.o PATHS /usr/lib/afl /usr/local/lib/afl)
    if(NOT HAKMEM_AFL_DRIVER OR NOT HAKMEM_AFL_RUNTIME)
      hakmem_say("there is no AFL++: the fuzz targets are built for libFuzzer only. Install: sudo apt-get install afl++")
    endif()
  endif()
endmacro()

function(hakmem_check_compilers)
  foreach(language C CXX)
    set(id "${CMAKE_${language}_COMPILER_ID}")
    if(DEFINED HAKMEM_${id}_OLDEST AND CMAKE_${language}_COMPILER_VERSION VERSION_LESS HAKMEM_${id}_OLDEST)
      hakmem_missing("${CMAKE_${language}_COMPILER} is ${id} ${CMAKE_${language}_COMPILER_VERSION}, and ${HAKMEM_${id}_OLDEST} is the oldest that was tried"
        "${hakmem_llvm}" "name another by CC and CXX")
    endif()
  endforeach()
endfunction()

macro(hakmem_find_all)
  find_package(Threads REQUIRED) # part of libc
  hakmem_check_compilers()
  hakmem_need_linker()
  if(HAKMEM_C_ONLY)
    set(HAKMEM_SUITE OFF)
  elseif(HAKMEM_TESTS AND NOT HAKMEM_SUITE)
    hakmem_say("HAKMEM_SUITE=OFF: this tree has no tests, since they need the suite")
    set(HAKMEM_TESTS OFF)
  endif()
  if(HAKMEM_TESTS AND NOT HAKMEM_C_ONLY)
    hakmem_find_gtest()
  endif()
  if(HAKMEM_SUITE)
    hakmem_find_suite()
  endif()
  hakmem_find_python()
  hakmem_find_others()
  hakmem_stop_if_missing()
endmacro()
