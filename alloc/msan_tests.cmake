# Tests of a tree with MemorySanitizer. libstdc++ and GoogleTest are not instrumented, so the sanitizer would take each
# of their strings for uninitialised memory. So there is no C++ here, but two C programs: threads_program
# (c_tests.cmake), which fails if the allocator makes a decision by memory that it has not written; and msan_program,
# which asks the sanitizer what it believes about the blocks that a program gets.
hakmem_c_program(msan-program programs/msan_program.c ${RELEASE_OBJECTS})
hakmem_c_program(msan-program-validate programs/msan_program.c $<TARGET_OBJECTS:alloc-tests-c>)

function(hakmem_add_msan_test name program)
  add_test(NAME program/msan-marks${name} COMMAND ${program} marks)
  # The sanitizer must report a program that reads a fresh byte, but not one that has written it before.
  add_test(NAME program/msan-read${name} COMMAND ${program} read)
  add_test(NAME program/msan-write-read${name} COMMAND ${program} write-read)
  set(tests program/msan-marks${name} program/msan-read${name} program/msan-write-read${name})
  set_tests_properties(${tests} PROPERTIES LABELS unit TIMEOUT 600 ${ARGN})
  set_tests_properties(program/msan-read${name} PROPERTIES PASS_REGULAR_EXPRESSION "use-of-uninitialized-value")
endfunction()
hakmem_add_msan_test("" msan-program)
foreach(level 1 2 3)
  hakmem_add_msan_test(-validate.${level} msan-program-validate ENVIRONMENT HAKMEM_FAILFAST_LEVEL=${level})
endforeach()
