# Tests of the suite itself (label unit) and the scenarios on each subject (labels stress and peers). Label once: tests
# that take long and do not depend on the compiler; ci/test runs them only in the tree release.

include(GoogleTest)

if(NOT STRESS_SANITIZED) # two programs have it: its JSON takes as long to compile as eight files of tests
  hakmem_read_once(campaign/runs_for_test.cc)
  add_library(runs_for_test OBJECT campaign/runs_for_test.cc)
  target_link_libraries(runs_for_test PRIVATE stress_engine)
  list(TRANSFORM CAMPAIGN_TESTS REPLACE "^campaign/runs_for_test.cc$" "$<TARGET_OBJECTS:runs_for_test>")
endif()

add_executable(stress-test
  cli_test.cc
  command/command_test.cc
  engine/base/progress_test.cc
  engine/base/queue_test.cc
  engine/base/spawn_for_test.cc
  engine/judge/claim_map_test.cc
  engine/seat/sched_test.cc
  engine/seat/seat_report_test.cc
  program/op_text_test.cc
  program/program_test.cc
  ${CAMPAIGN_TESTS})
# These have one thread each, in this process, so ThreadSanitizer has nothing to see.
if(NOT STRESS_THREAD_SANITIZED)
  target_sources(stress-test PRIVATE
    engine/base/build_id_test.cc engine/base/known_test.cc
    engine/base/rng_test.cc
    engine/op/content_test.cc
    engine/op/latency_test.cc
    engine/op/mix_test.cc
    engine/op/op_test.cc
    engine/judge/line_map_test.cc
    engine/judge/memory_law_test.cc
    engine/judge/memory_test.cc
    engine/judge/oracle_test.cc
    engine/judge/remains_test.cc
    engine/judge/samples_test.cc
    engine/seat/op_stream_test.cc
    engine/run/options_parse_test.cc
    engine/run/result_test.cc
    engine/subject/preload_path_test.cc
    engine/watch/stack_test.cc
    engine/watch/work_clock_test.cc
    inject/repeat_test.cc
    inject/totals_test.cc
    program/minimise_test.cc
    program/program_file_test.cc
    program/run_log_test.cc
    scenario/scenario_test.cc
    ${CAMPAIGN_TESTS_OF_ONE_THREAD}
    ${RECORD_TESTS})
endif()
if(NOT STRESS_SANITIZED)
  target_sources(stress-test PRIVATE canary/canary_test.cc canary/process_canary_test.cc canary/quiet_test.cc
    canary/shrink_test.cc canary/inject_canary_test.cc canary/inject_lines_test.cc command/keep_test.cc
    # These compare mallocs, and a sanitizer brings its own.
    engine/subject/fault_os_test.cc engine/team/process_ops_test.cc)
  foreach(bug IN LISTS STRESS_CANARIES)
    add_dependencies(stress-test canary-${bug})
  endforeach()
endif()
# Runs the plans of all scenarios, millions of ops.
set_source_files_properties(scenario/scenario_test.cc PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
add_dependencies(stress-test hakmem-stress)
if(TARGET capture-recorder)
  add_executable(capture-calls capture/calls_for_test.c)
  target_include_directories(capture-calls PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(capture-calls PRIVATE Threads::Threads)
  target_compile_options(capture-calls PRIVATE -O0 -fno-builtin)
  target_sources(stress-test PRIVATE capture/capture_test.cc capture/convert_test.cc program/trace_file_test.cc)
  add_dependencies(stress-test capture-calls)
endif()
target_link_libraries(stress-test PRIVATE stress_engine GTest::gmock GTest::gtest_main)
if(COMMAND hakmem_precompile)
  hakmem_test_code(stress-test)
  hakmem_precompile(stress-test <gmock/gmock.h> <gtest/gtest.h> <algorithm> <map> <set> <string> <vector>)
endif()
# The interpreter on a subject that the test fakes: built to call hak_*, which the test defines.
if(NOT STRESS_SANITIZED)
  add_executable(interp-test engine/seat/interp_test.cc engine/seat/interp_faults_test.cc engine/seat/interp.cc
    engine/seat/sched.cc engine/judge/claim_map.cc
    engine/judge/failure.cc engine/judge/line_map.cc engine/judge/oracle.cc engine/op/content.cc engine/op/latency.cc
    engine/op/op.cc engine/base/libc.cc engine/base/mapped.cc engine/base/rng.cc)
  stress_flags(interp-test)
  target_compile_definitions(interp-test PRIVATE HAKMEM_STRESS_DIRECT=1)
  target_compile_options(interp-test PRIVATE -O0)
  target_link_libraries(interp-test PRIVATE GTest::gtest_main)
  if(COMMAND hakmem_unity)
    hakmem_unity(interp-test)
  endif()
  gtest_discover_tests(interp-test TEST_PREFIX "stress-unit." DISCOVERY_TIMEOUT 300 PROPERTIES LABELS unit TIMEOUT 600)
endif()
# Planted bugs are separate libraries, and the tests that find them are the same in every tree.
function(stress_unit_tests filter label)
  gtest_discover_tests(stress-test TEST_FILTER "${filter}" TEST_PREFIX "stress-unit." DISCOVERY_TIMEOUT 300
    PROPERTIES LABELS ${label} TIMEOUT 600 ENVIRONMENT "HAKMEM_STRESS_PROGRAM=$<TARGET_FILE:hakmem-stress>")
endfunction()
set(planted "Rounds.*:Canary/*:OtherScenarios.*:InjectCanary*")
stress_unit_tests("-${planted}" unit)
stress_unit_tests("${planted}" once)

# What every malloc must do: checked on our own two and on libc. The checks themselves are tested on libraries with
# planted bugs.
if(NOT STRESS_SANITIZED)
  hakmem_read_once(conform/conform_test.cc)
  add_executable(conform-test conform/conform_test.cc engine/base/spawn_for_test.cc)
  add_dependencies(conform-test hakmem-stress conform-canaries)
  target_link_libraries(conform-test PRIVATE stress_engine nlohmann_json::nlohmann_json GTest::gmock GTest::gtest_main)
  gtest_discover_tests(conform-test TEST_PREFIX "conform-unit." DISCOVERY_TIMEOUT 300 PROPERTIES LABELS conform
    TIMEOUT 900 ENVIRONMENT "HAKMEM_STRESS_PROGRAM=$<TARGET_FILE:hakmem-stress>")
  foreach(subject IN ITEMS hakmem validate system)
    if(subject STREQUAL "system" OR TARGET hakmem_static)
      add_test(NAME conform.${subject} COMMAND hakmem-stress conform --allocator ${subject})
      set_tests_properties(conform.${subject} PROPERTIES LABELS conform TIMEOUT 900)
    endif()
  endforeach()
  # A module that the archive is linked into.
  if(TARGET hakmem_override AND NOT HAKMEM_STATIC_ONLY AND NOT CMAKE_CROSSCOMPILING)
    add_library(conform-archive MODULE conform/plugin/constructor.c)
    target_compile_options(conform-archive PRIVATE -Wall -Wextra -fno-builtin)
    target_link_libraries(conform-archive PRIVATE hakmem_override)
    add_dependencies(conform-test conform-archive)
    add_test(NAME conform.archive COMMAND hakmem-stress conform --allocator $<TARGET_FILE:conform-archive>
      --only dlopen-the-library --only dlmopen --only unload)
    set_tests_properties(conform.archive PROPERTIES LABELS conform TIMEOUT 900)
  endif()
  # The settings of the debug-validation build, which are read elsewhere than the options.
  if(TARGET wrong-program-validate)
    add_test(NAME conform.secure-failfast
      COMMAND conform-secure $<TARGET_FILE:wrong-program-validate> double-free)
    set_tests_properties(conform.secure-failfast PROPERTIES LABELS conform TIMEOUT 300 SKIP_RETURN_CODE 77
      ENVIRONMENT "HAKMEM_FAILFAST=report;HAKMEM_FAILFAST_LEVEL=0" PASS_REGULAR_EXPRESSION "double_free: double free"
      FAIL_REGULAR_EXPRESSION "nobody stopped it")
  endif()
endif()

# The suite's power: each bug of the small malloc is found by its command, or by what users run.
if(NOT STRESS_SANITIZED AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  foreach(run "|" ".all|--all")
    string(REGEX REPLACE "[|].*" "" suffix "${run}")
    string(REGEX REPLACE ".*[|]" "" extent "${run}")
    add_test(NAME stress-unit.recall${suffix} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/canary/recall
      $<TARGET_FILE:hakmem-stress> $<TARGET_FILE:canary-mini> ${extent})
    set_tests_properties(stress-unit.recall${suffix} PROPERTIES LABELS once TIMEOUT 7200 COST 30)
  endforeach()
endif()

# Every write of a result fails once, or is interrupted: see write_faults_test.
if(NOT STRESS_SANITIZED AND TARGET hakmem_static)
  add_library(write-faults MODULE command/write_faults.c)
  target_compile_options(write-faults PRIVATE -Wall -Wextra -Wshadow -Wundef)
  add_dependencies(write-faults hakmem-stress hakmem canary-overlap)
  if(TARGET capture-recorder) # a disk that is nearly full
    add_dependencies(stress-test write-faults)
  endif()
  foreach(command IN ITEMS larson speed scenario-report all soak conform run record show shrink report inject)
    add_test(NAME stress-unit.write-faults.${command} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/command/write_faults_test
      $<TARGET_FILE:hakmem-stress> $<TARGET_FILE:write-faults> $<TARGET_FILE:canary-overlap> ${command})
    set_tests_properties(stress-unit.write-faults.${command} PROPERTIES LABELS once TIMEOUT 300)
  endforeach()
endif()

# What the suite draws, counts and judges in runs that repeat.
if(NOT STRESS_SANITIZED AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  add_test(NAME stress-unit.golden COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/command/golden_check $<TARGET_FILE:hakmem-stress>
    ${PROJECT_SOURCE_DIR}/corpus)
  set_tests_properties(stress-unit.golden PROPERTIES LABELS once TIMEOUT 900 COST 10)
endif()

# The page of a report, in a real browser.
if(NOT STRESS_SANITIZED)
  add_executable(page_for_test campaign/page/page_for_test.cc $<TARGET_OBJECTS:runs_for_test>)
  target_link_libraries(page_for_test PRIVATE stress_engine)
  add_test(NAME stress-unit.report-browser
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/campaign/page/browser_test $<TARGET_FILE:page_for_test>)
  set_tests_properties(stress-unit.report-browser PROPERTIES LABELS once SKIP_RETURN_CODE 77 TIMEOUT 600)
  add_test(NAME stress-unit.recipes COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/campaign/merge/recipes_test
    $<TARGET_FILE:hakmem-stress> $<TARGET_FILE:canary-overlap> ${PROJECT_SOURCE_DIR}/docs/test-your-malloc.md)
  set_tests_properties(stress-unit.recipes PROPERTIES LABELS once TIMEOUT 300)
endif()

include(scenario/scenario.cmake)
include(inject/tests.cmake)
