# The unit tests: one test of ctest for each GoogleTest suite, over the validating and the release
# objects. None of these programs' own malloc is replaced, but for those at the end.

set(TESTS
    base/bits_test.cc base/sizeclass_test.cc
    os/lock_test.cc os/meta_test.cc os/os_fault_test.cc os/os_linux_test.cc
    superslab/superslab_test.cc)

# A test of ctest for every suite that the files name.
function(hakmem_add_suites program prefix)
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^TEST[A-Z_]*\\(")
    list(TRANSFORM lines REPLACE "^TEST[A-Z_]*\\(([A-Za-z0-9_]+).*" "\\1" OUTPUT_VARIABLE suites)
    list(REMOVE_DUPLICATES suites)
    foreach(suite IN LISTS suites)
      add_test(NAME ${prefix}/${suite} COMMAND ${program} --gtest_filter=${suite}.*)
      set_tests_properties(${prefix}/${suite} PROPERTIES LABELS unit TIMEOUT 120)
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
hakmem_objects(alloc-tests-release-c 0 1 ${CORE} ${FAULTS})

hakmem_test_program(alloc-tests $<TARGET_OBJECTS:alloc-tests-c> 1 ${TESTS})
hakmem_test_program(alloc-tests-release $<TARGET_OBJECTS:alloc-tests-release-c> 0 ${TESTS})
hakmem_add_suites(alloc-tests unit ${TESTS})
hakmem_add_suites(alloc-tests-release unit-release ${TESTS})
