# Tests of ci/bench, and of what a malloc and a free of the release build may cost.

set(bench ${PROJECT_SOURCE_DIR}/stress/bench/measure)
foreach(part IN ITEMS apps callgrind figures growth options surface)
    hakmem_lint(bench_${part} ${CMAKE_COMMAND} -E env PYTHONPATH=${PROJECT_SOURCE_DIR}/stress/bench
        PYTHONDONTWRITEBYTECODE=1 ${Python3_EXECUTABLE} -m unittest measure.test_${part})
endforeach()

# The counts are recorded for clang's plain release build; other builds have other counts.
if(CMAKE_C_COMPILER_ID MATCHES Clang AND CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT HAKMEM_PGO)
    hakmem_lint(bench_counts Python3::Interpreter ${lint}/counts instructions ${CMAKE_BINARY_DIR})
    set_tests_properties(lint.bench_counts PROPERTIES LABELS "lint;counts" SKIP_RETURN_CODE 77 TIMEOUT 600 COST 60)
    hakmem_lint(bench_few Python3::Interpreter ${lint}/counts instructions ${CMAKE_BINARY_DIR} mixed-1024 bulk-64-1k-random
        remote-free/2)
    set_tests_properties(lint.bench_few PROPERTIES LABELS "lint;counts" SKIP_RETURN_CODE 77 TIMEOUT 600)
    hakmem_lint(growth Python3::Interpreter ${lint}/counts growth ${CMAKE_BINARY_DIR})
    set_tests_properties(lint.growth PROPERTIES LABELS "lint;counts" SKIP_RETURN_CODE 77 TIMEOUT 900 COST 50)
endif()

if(TARGET hakmem-ordered) # only with clang, and without a sanitizer
    hakmem_lint(contention Python3::Interpreter ${lint}/counts contention ${CMAKE_BINARY_DIR})
    set_tests_properties(lint.contention PROPERTIES LABELS "lint;counts" COST 10)
endif()

# Runs every row briefly, on the system's malloc and on ours; then the whole command.
foreach(subject IN ITEMS system hakmem)
    set(preload "")
    if(subject STREQUAL "hakmem")
        set(preload $<TARGET_FILE:hakmem>)
    endif()
    add_test(NAME bench.rows.${subject} COMMAND Python3::Interpreter ${bench}/rows_test
        $<TARGET_FILE:hakmem-bench> ${preload})
    set_tests_properties(bench.rows.${subject} PROPERTIES LABELS unit TIMEOUT 900)
endforeach()
add_test(NAME bench.exact COMMAND Python3::Interpreter ${bench}/exact_test $<TARGET_FILE:hakmem-bench>
    $<TARGET_FILE:bench-count>)
set_tests_properties(bench.exact PROPERTIES LABELS once TIMEOUT 900 COST 10)
add_test(NAME bench.command COMMAND Python3::Interpreter ${bench}/command_test ${CMAKE_BINARY_DIR})
set_tests_properties(bench.command PROPERTIES LABELS once SKIP_RETURN_CODE 77 TIMEOUT 900)
add_test(NAME bench.surface COMMAND Python3::Interpreter ${bench}/surface_test ${CMAKE_BINARY_DIR} $<TARGET_FILE:bench-cliff>)
set_tests_properties(bench.surface PROPERTIES LABELS once SKIP_RETURN_CODE 77 TIMEOUT 900 COST 10)
