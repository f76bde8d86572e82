# Tests of the suite itself (label unit) and the scenarios on each subject (label stress).

include(GoogleTest)

add_executable(stress-test
  cli_test.cc
  engine/claim_map_test.cc
  engine/content_test.cc
  engine/memory_test.cc
  engine/mix_test.cc
  engine/options_test.cc
  engine/oracle_test.cc
  engine/progress_test.cc
  engine/queue_test.cc
  engine/result_test.cc
  engine/rng_test.cc
  engine/spawn_for_test.cc)
if(NOT STRESS_SANITIZED)
  target_sources(stress-test PRIVATE canary/canary_test.cc)
  foreach(bug IN LISTS STRESS_CANARIES)
    add_dependencies(stress-test canary-${bug})
  endforeach()
endif()
add_dependencies(stress-test hakmem-stress)
target_link_libraries(stress-test PRIVATE stress_engine GTest::gmock GTest::gtest_main)
gtest_discover_tests(stress-test TEST_PREFIX "stress-unit." DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit TIMEOUT 120
  ENVIRONMENT "HAKMEM_STRESS_PROGRAM=$<TARGET_FILE:hakmem-stress>")

# Ops for about two seconds on two cores, checked; a sanitizer is many times slower.
set(STRESS_OPS_larson 32000000)
set(STRESS_OPS_random-mixed 36000000)
set(STRESS_OPS_remote-free 10000000)
if(STRESS_SANITIZED)
  set(STRESS_OPS_larson 1800000)
  set(STRESS_OPS_random-mixed 1800000)
  set(STRESS_OPS_remote-free 1000000)
endif()

# stress_scenario_test(name subject scenario threads): one checked run of fixed ops and seed.
function(stress_scenario_test name subject scenario threads)
  add_test(NAME ${name}
    COMMAND hakmem-stress ${scenario} --allocator ${subject} --threads ${threads} --seed 42
      --ops ${STRESS_OPS_${scenario}})
  set_tests_properties(${name} PROPERTIES LABELS stress TIMEOUT 30)
  if(threads GREATER 1)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

if(HAKMEM_DIRECT)
  set(STRESS_SUBJECTS hakmem)
elseif(STRESS_SANITIZED)
  set(STRESS_SUBJECTS system)
elseif(TARGET hakmem_static)
  set(STRESS_SUBJECTS hakmem validate)
else()
  set(STRESS_SUBJECTS system) # the suite built alone
endif()
foreach(scenario IN ITEMS larson random-mixed remote-free)
  foreach(subject IN LISTS STRESS_SUBJECTS)
    foreach(threads IN ITEMS 1 2 4 8)
      stress_scenario_test(stress.${scenario}.${subject}.t${threads} ${subject} ${scenario} ${threads})
    endforeach()
  endforeach()
endforeach()

# Other mallocs must pass too: a suite that only its own allocator passes would prove little.
function(stress_peer_test peer subject)
  set(name stress.remote-free.${peer})
  if(subject STREQUAL "system" OR EXISTS ${subject})
    stress_scenario_test(${name} ${subject} remote-free 4)
  else()
    add_test(NAME ${name} COMMAND sh -c "echo skipped: ${subject} is not installed; exit 77")
    set_tests_properties(${name} PROPERTIES LABELS stress SKIP_RETURN_CODE 77)
  endif()
endfunction()

if(NOT STRESS_SANITIZED)
  set(STRESS_PEER_DIRECTORY /usr/lib/x86_64-linux-gnu CACHE PATH "Where other mallocs are installed")
  stress_peer_test(system system)
  stress_peer_test(jemalloc ${STRESS_PEER_DIRECTORY}/libjemalloc.so.2)
  stress_peer_test(mimalloc ${STRESS_PEER_DIRECTORY}/libmimalloc.so.2)
  stress_peer_test(tcmalloc ${STRESS_PEER_DIRECTORY}/libtcmalloc_minimal.so.4)
endif()
