# The unit tests: one test of ctest for each GoogleTest suite, over the validating and the release
# objects. None of these programs' own malloc is replaced, but for those at the end.

set(TESTS
    base/bits_test.cc base/sizeclass_test.cc
    os/lock_test.cc os/meta_test.cc os/os_fault_test.cc os/os_linux_test.cc os/peek_test.cc
    superslab/pagemap_test.cc superslab/pool_test.cc superslab/purge_test.cc
    superslab/superslab_test.cc
    slab/owner_test.cc slab/remote_test.cc slab/slab_test.cc slab/trim_test.cc
    cache/fork_test.cc cache/succession_test.cc cache/tcache_test.cc cache/thread_test.cc
    heap/calloc_test.cc heap/describe_test.cc heap/fault_test.cc heap/huge_test.cc heap/large_test.cc
    heap/options_test.cc heap/realloc_test.cc heap/stats_test.cc
    entry/api_test.cc entry/record_write_test.cc)
# What the debug-validation build does without.
set(RELEASE_TESTS heap/guard_test.cc)
# A failed check ends the process: these are death tests.
set(VALIDATE_TESTS
    heap/counters_test.cc heap/frame_test.cc os/hooks_test.cc os/maps_test.cc report/report_test.cc
    slab/validate_test.cc)
# Each of these runs in a child whose heap has not started: without what runs before main.
set(FRESH_TESTS cache/fresh_test.cc)

# A test of ctest for every suite that the files name.
function(hakmem_add_suites program prefix)
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^TEST[A-Z_]*\\(")
    list(TRANSFORM lines REPLACE "^TEST[A-Z_]*\\(([A-Za-z0-9_]+).*" "\\1" OUTPUT_VARIABLE suites)
    list(REMOVE_DUPLICATES suites)
    foreach(suite IN LISTS suites)
      add_test(NAME ${prefix}/${suite} COMMAND ${program} --gtest_filter=${suite}.*)
      # These look at the heap's inside, with exact sizes: blocks without frames.
      set_tests_properties(${prefix}/${suite} PROPERTIES LABELS unit TIMEOUT 120
          ENVIRONMENT HAKMEM_FAILFAST_LEVEL=1)
    endforeach()
  endforeach()
endfunction()

function(hakmem_test_program name objects validate)
  add_executable(${name} ${ARGN} ${objects})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
                                             ${CMAKE_CURRENT_SOURCE_DIR}/include)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE HAKMEM_DEBUG_VALIDATION=${validate})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wundef -Werror
      -Wno-dangling-else) # of GoogleTest's macros, which are if and else themselves
  target_link_libraries(${name} PRIVATE GTest::gtest_main Threads::Threads)
  # The C headers' atomics, by <stdatomic.h>, are C++23's.
  set_target_properties(${name} PROPERTIES CXX_STANDARD 23)
endfunction()

hakmem_objects(alloc-tests-c 1 1 ${CORE} ${CHECKS} ${FAULTS})
# The hook and the inspector are for tests; the release library has neither.
hakmem_objects(alloc-tests-release-c 0 1 ${CORE} base/sync_point.c heap/inspect.c ${FAULTS})

hakmem_test_program(alloc-tests $<TARGET_OBJECTS:alloc-tests-c> 1 ${TESTS} ${VALIDATE_TESTS})
hakmem_test_program(alloc-tests-release $<TARGET_OBJECTS:alloc-tests-release-c> 0 ${TESTS} ${RELEASE_TESTS})
foreach(program alloc-tests alloc-tests-release)
  hakmem_precompile(${program} <gtest/gtest.h> <algorithm> <atomic> <functional> <map> <set> <string> <thread> <vector>)
endforeach()
hakmem_add_suites(alloc-tests unit ${TESTS} ${VALIDATE_TESTS})
hakmem_add_suites(alloc-tests-release unit-release ${TESTS} ${RELEASE_TESTS})

set(not_start "start\\.c")
hakmem_test_program(alloc-tests-fresh
    "$<FILTER:$<TARGET_OBJECTS:alloc-tests-c>,EXCLUDE,${not_start}>" 1 ${FRESH_TESTS})
hakmem_test_program(alloc-tests-fresh-release
    "$<FILTER:$<TARGET_OBJECTS:alloc-tests-release-c>,EXCLUDE,${not_start}>" 0 ${FRESH_TESTS})
hakmem_add_suites(alloc-tests-fresh unit ${FRESH_TESTS})
hakmem_add_suites(alloc-tests-fresh-release unit-release ${FRESH_TESTS})

# --- malloc itself replaced: by preloading, and by linking -------------------------------------------

if(HAKMEM_DIRECT)
  return() # a sanitizer has replaced malloc already
endif()

function(hakmem_add_override_test name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 60)
endfunction()

set(hakmem_includes ${CMAKE_CURRENT_SOURCE_DIR}/include)
add_executable(override-tests entry/override_test.cc)
target_include_directories(override-tests PRIVATE ${hakmem_includes})
target_compile_options(override-tests PRIVATE -Wall -Wextra -Wundef -Werror -fno-builtin)
target_link_libraries(override-tests PRIVATE GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})

# Its hak_stats_get is weak: found in what is preloaded, if anything is.
add_executable(plain-program entry/plain_program.c)
target_include_directories(plain-program PRIVATE ${hakmem_includes})
target_link_libraries(plain-program PRIVATE Threads::Threads)

hakmem_add_override_test(override/libc override-tests)
foreach(library hakmem hakmem-validate)
  add_dependencies(override-tests ${library})
  hakmem_add_override_test(override/${library}
      ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}>
      HAKMEM_TEST_LIBRARY=$<TARGET_FILE_NAME:${library}> $<TARGET_FILE:override-tests>)
  hakmem_add_override_test(override/${library}-without-cxx
      ${CMAKE_COMMAND} -E env LD_PRELOAD=$<TARGET_FILE:${library}>
      $<TARGET_FILE:plain-program> libstdc++)
endforeach()

# The override is an object, so that it takes libc's place before an archive is searched.
function(hakmem_link_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE hakmem_static)
  add_dependencies(${name} hakmem_override_object)
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${override};${override_cxx};${archive}")
  hakmem_add_override_test(link/${name} ${name})
endfunction()

hakmem_link_program(beside-program entry/beside_program.c)
hakmem_link_program(static-cxx entry/static_program.cc)
target_link_libraries(static-cxx PRIVATE ${override} ${override_cxx})

# A C program's link knows no C++ runtime. The test itself links it, so as to say what is missing.
foreach(kind "" -static)
  set(program ${CMAKE_CURRENT_BINARY_DIR}/static-c${kind})
  add_test(NAME link/static-c${kind} COMMAND sh -c
      "'${CMAKE_C_COMPILER}' ${kind} -O2 -I'${hakmem_includes}' -o '${program}' \
      '${CMAKE_CURRENT_SOURCE_DIR}/entry/plain_program.c' '${override}' '${archive}' -pthread && \
      '${program}'")
  set_tests_properties(link/static-c${kind} PROPERTIES LABELS unit TIMEOUT 60)
endforeach()
