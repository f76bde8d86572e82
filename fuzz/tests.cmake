# Tests of the fuzzing code itself.
add_executable(fuzz-test op_input_test.cc op_mutator_test.cc op_shrink_test.cc)
fuzz_harness(fuzz-test)
target_compile_definitions(fuzz-test PRIVATE FUZZ_GOLDEN="${CMAKE_CURRENT_SOURCE_DIR}/golden"
  FUZZ_DICTIONARY="${CMAKE_CURRENT_BINARY_DIR}/sizes.dict")
target_link_libraries(fuzz-test PRIVATE fuzz_op_text GTest::gmock GTest::gtest_main)
add_dependencies(fuzz-test fuzz-dictionaries)
hakmem_test_code(fuzz-test)
hakmem_unity(fuzz-test)
gtest_discover_tests(fuzz-test TEST_PREFIX "fuzz-unit." TEST_LIST fuzz_unit_tests DISCOVERY_TIMEOUT 300
  PROPERTIES LABELS fuzz TIMEOUT 600)
# The machine contains the suite's interpreter with another subject, so it has a separate test program.
add_executable(fuzz-machine-test op_machine_test.cc $<TARGET_OBJECTS:hakmem_fibers>
  $<TARGET_OBJECTS:explore_inside>)
fuzz_harness(fuzz-machine-test)
target_link_libraries(fuzz-machine-test PRIVATE fuzz_machine fuzz_sanitized_link GTest::gtest_main)
gtest_discover_tests(fuzz-machine-test TEST_PREFIX "fuzz-unit." TEST_LIST fuzz_machine_tests DISCOVERY_TIMEOUT 300
  PROPERTIES LABELS fuzz TIMEOUT 600)
# A list of labels does not survive gtest_discover_tests, so ctest itself sets it.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/labels.cmake "foreach(test IN LISTS fuzz_unit_tests fuzz_machine_tests)
  set_tests_properties(\${test} PROPERTIES LABELS \"fuzz;unit\")
endforeach()
")
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/labels.cmake)

add_test(NAME fuzz-unit.campaign COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/campaign/self_test.py)
set_tests_properties(fuzz-unit.campaign PROPERTIES LABELS "fuzz;unit" TIMEOUT 300)

# The traces of real programs as inputs: each is cut, and each of its inputs runs.
if(STRESS_ZSTD)
add_test(NAME fuzz.traces COMMAND sh -euc "rm -rf fuzz-traces
for trace in '${PROJECT_SOURCE_DIR}'/corpus/traces/*.trace
do $<TARGET_FILE:fuzz-op-reduce> \"$trace\" --shape ops_mt --encode --out fuzz-traces
done
$<TARGET_FILE:fuzz_ops_mt-replay> fuzz-traces"
  WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
set_tests_properties(fuzz.traces PROPERTIES LABELS nightly TIMEOUT 600)
endif()

# Builds and runs the targets as a service does.
if(HAKMEM_FUZZ)
  add_test(NAME fuzz.oss-fuzz COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/oss-fuzz/test)
  set_tests_properties(fuzz.oss-fuzz PROPERTIES LABELS nightly TIMEOUT 1500 SKIP_RETURN_CODE 77) # two builds: minutes
endif()
