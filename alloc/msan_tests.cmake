# Tests of a tree with MemorySanitizer. libstdc++ and GoogleTest are not instrumented: each string of theirs would be
# taken for uninitialised memory. So there is no C++ here, and in its place: threads_program (c_tests.cmake), during
# which the allocator may decide nothing by memory that it has not written; and msan_program, which asks the sanitizer
# what it believes of the blocks that a program gets.
hakmem_c_program(msan-program programs/msan_program.c $<TARGET_OBJECTS:alloc-tests-release-c>)
hakmem_c_program(msan-program-validate programs/msan_program.c $<TARGET_OBJECTS:alloc-tests-c>)

function(hakmem_add_msan_test name program)
  add_test(NAME program/msan-marks${name} COMMAND ${program} marks)
  # A program that reads a fresh byte is told so; one that wrote it before is not.
  add_test(NAME program/msan-read${name} COMMAND ${program} read)
  add_test(NAME program/msan-write-read${name} COMMAND ${program} write-read)
  set(tests program/msan-marks${name} program/msan-read${name} program/msan-write-read${name})
  set_tests_properties(${tests} PROPERTIES LABELS unit TIMEOUT 120 ${ARGN})
  set_tests_properties(program/msan-read${name} PROPERTIES PASS_REGULAR_EXPRESSION "use-of-uninitialized-value")
endfunction()
hakmem_add_msan_test("" msan-program)
foreach(level 1 2 3)
  hakmem_add_msan_test(-validate.${level} msan-program-validate ENVIRONMENT HAKMEM_FAILFAST_LEVEL=${level})
endforeach()
