# One tiny program for each kind of misuse, with its variants: label misuse. Each runs
#   misuse.KIND.N          on the debug-validation library: exactly this kind and address, and the report line by line
#                          as in reports.txt, which MISUSE_REPORTS_UPDATE=1 ctest -L misuse rewrites
#   misuse.KIND.N.goes-on  the same with HAKMEM_FAILFAST=report, if the program can continue
#   misuse.KIND.N.release  on the release library, which must not mention failfast
# The table's rows: KIND|PROGRAM ARGUMENTS...|LEVEL|FLAGS. FLAGS: stays (the program can continue), trace (the report
# says where the block was allocated), traces (it also says where the block was freed), NAME=VALUE (an option). ci/lint/catalogue reads the
# first column.

if(STRESS_SANITIZED OR NOT TARGET hakmem-validate)
  return() # nothing to preload
endif()

set(MISUSES
  "double_free|double_free 100 same|2|stays"
  "double_free|double_free 100 same|1|stays"
  "double_free|double_free 100 same|3|stays,traces"
  "double_free|double_free 5000 same|2|stays"
  "double_free|double_free 100 between|2|stays"
  "double_free|double_free 100 other|2|stays"
  "double_free|double_free 100 other|3|stays,traces"
  "double_free|double_free 100 others|2|stays"
  "double_free|double_free 100 others|1|stays"
  "double_free|double_free 100 magazine|2|stays"
  "double_free|double_free 100 magazine|1|stays"
  "double_free|double_free 100 purged|2|stays"
  "double_free|double_free 60000 same|2|stays"
  "double_free|double_free 100000 same|2|stays"
  "double_free|double_free 100000 same|1|stays"
  "double_free|double_free 5000000 same|2|stays"
  "double_free|double_free 5000000 same|1|stays"
  "double_free|double_free 5000000 other|2|stays"
  "realloc_freed|realloc_freed 100 200|2|stays"
  "realloc_freed|realloc_freed 100 0|2|stays"
  "realloc_freed|realloc_freed 100 100|1|stays"
  "realloc_freed|realloc_freed 100 200|3|stays,traces"
  "realloc_freed|realloc_freed 100000 200000|2|stays"
  "realloc_freed|realloc_freed 5000000 9000000|2|stays"
  "interior_pointer|interior_pointer 100 16|2|stays"
  "interior_pointer|interior_pointer 100 16|1|stays"
  "interior_pointer|interior_pointer 100 16|3|stays,trace"
  "interior_pointer|interior_pointer 5000 4096|2|stays"
  "interior_pointer|interior_pointer 200000 4096|2|stays"
  "interior_pointer|interior_pointer 200000 131072|2|stays"
  "interior_pointer|interior_pointer 200000 131072|1|stays"
  "interior_pointer|interior_pointer 5000000 4096|2|stays"
  "interior_pointer|interior_pointer 20000000 9000000|2|stays"
  "interior_pointer|interior_pointer 5000000 4096|1|stays"
  "misaligned_pointer|misaligned_pointer 100 1|2|stays"
  "misaligned_pointer|misaligned_pointer 100 8|2|stays"
  "misaligned_pointer|misaligned_pointer 100 8|1|stays"
  "misaligned_pointer|misaligned_pointer 5000 15|2|stays"
  "misaligned_pointer|misaligned_pointer 100000 8|2|stays"
  "misaligned_pointer|misaligned_pointer 5000000 1|2|stays"
  "stack_pointer|stack_pointer main|2|stays"
  "stack_pointer|stack_pointer main|1|stays"
  "stack_pointer|stack_pointer thread|2|stays"
  "stack_pointer|stack_pointer lent|2|stays"
  "static_pointer|static_pointer data|2|stays"
  "static_pointer|static_pointer data|1|stays"
  "static_pointer|static_pointer zero|2|stays"
  "unmapped_pointer|unmapped_pointer 100000000 1|2|stays"
  "unmapped_pointer|unmapped_pointer 100000000 1|1|stays"
  "unmapped_pointer|unmapped_pointer 1500000 100|2|stays"
  "foreign_pointer|foreign_pointer mapping|2|stays"
  "foreign_pointer|foreign_pointer mapping|1|stays"
  "foreign_pointer|foreign_pointer wild|2|stays"
  "foreign_pointer|foreign_pointer low|2|stays"
  "never_returned|never_returned 976 end|2|stays"
  "never_returned|never_returned 1008 end|1|stays"
  "never_returned|never_returned 100 4032|2|stays"
  "mismatched_delete|mismatched_delete new delete[]|2|stays"
  "mismatched_delete|mismatched_delete new[] delete|2|stays"
  "mismatched_delete|mismatched_delete malloc delete|2|stays"
  "mismatched_delete|mismatched_delete malloc delete[]|2|stays"
  "mismatched_delete|mismatched_delete new free|2|stays"
  "mismatched_delete|mismatched_delete new[] free|3|stays,trace"
  "mismatched_delete|mismatched_delete new realloc|2|stays"
  "wrong_size|wrong_size free_sized 99|2|stays"
  "wrong_size|wrong_size free_sized 101|2|stays"
  "wrong_size|wrong_size delete 50|2|stays"
  "wrong_size|wrong_size delete[] 101|2|stays"
  "wrong_aligned_size|wrong_size free_aligned_sized 99|2|stays"
  "wrong_aligned_size|wrong_size delete-aligned 101|2|stays"
  "wrong_alignment|wrong_alignment free_aligned_sized 32|2|stays"
  "wrong_alignment|wrong_alignment delete 128|2|stays"
  "wrong_alignment|wrong_alignment malloc 16|2|stays"
  "wrong_alignment|wrong_alignment delete 0|2|stays"
  "size_overflow|size_overflow calloc|3|stays"
  "size_overflow|size_overflow reallocarray|3|stays"
  "size_overflow|size_overflow realloc|3|stays"
  "size_overflow|size_overflow malloc|3|stays"
  "write_before|write_before 100 -1 0|2|stays"
  "write_before|write_before 100 -9 0|2|stays"
  "write_before|write_before 100 -16 0|3|stays,trace"
  "write_before|write_before 5000 -1 0|2|stays"
  "write_before|write_before 100000 -16 0|2|stays"
  "write_before|write_before 5000000 -2 0|2|stays"
  "write_before|write_before 100 -40 64|2|stays"
  "write_before|write_before 8192 -17 4096|2|stays"
  "write_before|write_before 2097152 -1 8388608|2|stays"
  "write_before|write_before 96 0 0 28|3|stays,trace"
  "write_after|write_after 100 100 0 free|2|stays"
  "write_after|write_after 100 100 0 free|3|stays,trace"
  "write_after|write_after 101 101 0 realloc|2|stays"
  "write_after|write_after 101 101 0 usable|2|stays"
  "write_after|write_after 100 127 0 free|2|stays"
  "write_after|write_after 0 0 0 free|2|stays"
  "write_after|write_after 5000 5000 0 free|2|stays"
  "write_after|write_after 5000 5003 0 realloc|2|stays"
  "write_after|write_after 100000 100000 0 free|2|stays"
  "write_after|write_after 100000 104095 0 free|2|stays"
  "write_after|write_after 100000 100000 0 realloc|2|stays"
  "write_after|write_after 5000000 5000000 0 free|2|stays"
  "write_after|write_after 5000000 5000000 0 realloc|2|stays"
  "write_after|write_after 4096 4096 4096 free|2|stays"
  "write_after|write_after 640 640 64 free|2|stays"
  "write_after|write_after 100 100 0 exit|2|stays"
  "write_after|write_after 100 100 0 exit|3|stays,trace"
  "write_after|write_after 100000 100000 0 exit|2|stays"
  "write_after|write_after 5000000 5000000 0 exit|2|stays"
  "write_after|write_after 100 100 0 destroy|2|stays"
  "write_after|write_after 100000 100000 0 destroy|2|stays"
  "write_after|write_after 5000000 5000000 0 destroy|2|stays"
  "write_after_free|write_after_free 100 0 trim|2|stays"
  "write_after_free|write_after_free 100 99 trim|2|stays"
  "write_after_free|write_after_free 100 -1 trim|2|stays"
  "write_after_free|write_after_free 100 100 trim|2|stays"
  "write_after_free|write_after_free 100 50 frees|2|stays"
  "write_after_free|write_after_free 100 50 frees|3|stays,traces"
  "write_after_free|write_after_free 100 50 thread-end|2|stays"
  "write_after_free|write_after_free 100 50 ended|2|stays"
  "write_after_free|write_after_free 100 50 exit|2|"
  "write_after_free|write_after_free 200000 199999 exit|2|"
  "write_after_free|write_after_free 100 50 sleeper|2|"
  "write_after_free|write_after_free 100000 100 exit|2|"
  "write_after_free|write_after_free 100000 99999 trim|2|stays"
  "write_after_free|write_after_free 100 50 sweep|3|stays,traces"
  "write_after_free|write_after_free 5000 4999 trim|2|stays"
  "write_after_free|write_after_free 60000 1 trim|2|stays"
  "use_after_free|use_after_free 100000 5000 write|2|stays"
  "use_after_free|use_after_free 100000 50000 read|3|stays,traces"
  "use_after_free|use_after_free 5000000 1000000 read|2|stays"
  "use_after_free|use_after_free 100 0 pointer|2|"
  "never_written|never_written 100|2|HAKMEM_FAILFAST_FILL=165"
  "leak|leak 1000 400 frees|2|stays,HAKMEM_FAILFAST_LEAKS=1"
  "leak|leak 1000 400 frees|3|stays,trace,HAKMEM_FAILFAST_LEAKS=1"
  "leak|leak 1000 20 600|3|stays,trace,HAKMEM_FAILFAST_LEAKS=1"
  "head_alignment|bad_list head_alignment|1|"
  "next_link_range|bad_list next_link_range|1|"
  "next_link_range|bad_list middle|1|"
  "handed_out_twice|bad_list handed_out_twice|1|"
  "handed_out_twice|bad_list circle|1|"
  "law|bad_list law|1|"
  "remote_link|remote_link|1|"
  "destroyed_heap|destroyed_heap 100 free|2|stays"
  "destroyed_heap|destroyed_heap 100 free|1|stays"
  "destroyed_heap|destroyed_heap 100 free|3|stays,trace"
  "destroyed_heap|destroyed_heap 100 realloc|2|stays"
  "destroyed_heap|destroyed_heap 100 free_all|2|stays"
  "destroyed_heap|destroyed_heap 100000 free|2|stays"
  "destroyed_heap|destroyed_heap 100 handle|2|stays"
  "destroyed_heap|destroyed_heap 100 twice|1|stays"
  "double_free|destroyed_heap 100 freed|2|stays"
  "heap_not_held|heap_not_held|2|"
  "heap_not_held|heap_not_held|1|"
  )

# --- programs -----------------------------------------------------------------------------------------------

file(GLOB misuse_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/misuse/*.c ${CMAKE_CURRENT_SOURCE_DIR}/misuse/*.cc)
add_custom_target(misuse-programs)
foreach(source IN LISTS misuse_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(misuse-${name} ${source})
  add_dependencies(misuse-programs misuse-${name})
  # The programs are wrong on purpose. Where a compiler could notice, they use opaque() or a volatile. The traces of
  # level 3 need frame pointers.
  target_compile_definitions(misuse-${name} PRIVATE _GNU_SOURCE)
  target_compile_options(misuse-${name} PRIVATE -Wall -Wextra -Wundef -Wshadow -Wconversion -Werror -O1 -g -fno-builtin
    -fno-omit-frame-pointer -fno-optimize-sibling-calls)
  target_link_libraries(misuse-${name} PRIVATE Threads::Threads)
  set_target_properties(misuse-${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/misuse)
endforeach()

# The kinds of docs/debug.md, compiled as a user's program is: without frame pointers.
foreach(name kinds-c kinds-cxx)
  string(REPLACE "kinds-cxx" "kinds_cxx.cc" source ${name})
  string(REPLACE "kinds-c" "kinds.c" source ${source})
  add_executable(misuse-${name} ${CMAKE_CURRENT_SOURCE_DIR}/misuse/kinds/${source})
  add_dependencies(misuse-programs misuse-${name})
  target_include_directories(misuse-${name} PRIVATE ${PROJECT_SOURCE_DIR}/alloc/include)
  target_compile_definitions(misuse-${name} PRIVATE _GNU_SOURCE)
  target_compile_options(misuse-${name} PRIVATE -Wall -Wextra -Werror -O1 -g -fno-builtin -fomit-frame-pointer
    -fno-optimize-sibling-calls)
  target_link_libraries(misuse-${name} PRIVATE Threads::Threads)
  set_target_properties(misuse-${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/misuse/kinds)
endforeach()

# What an attacker makes of one error: docs/security.md.
add_executable(misuse-attacks ${CMAKE_CURRENT_SOURCE_DIR}/misuse/attacks/attacks.c)
add_dependencies(misuse-programs misuse-attacks)
target_compile_definitions(misuse-attacks PRIVATE _GNU_SOURCE)
target_compile_options(misuse-attacks PRIVATE -Wall -Wextra -Werror -O1 -g -fno-builtin)
set_target_properties(misuse-attacks PROPERTIES OUTPUT_NAME attacks RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/misuse)

# --- tests --------------------------------------------------------------------------------------------------

function(misuse_test name library)
  add_test(NAME ${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/misuse/check
    --library $<TARGET_FILE:${library}> ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS misuse TIMEOUT 600)
endfunction()

set(reports ${CMAKE_CURRENT_SOURCE_DIR}/misuse/reports.txt)
set(rows "")
foreach(row IN LISTS MISUSES)
  string(REPLACE "|" ";" row "${row}|")
  list(GET row 0 kind)
  list(GET row 1 command)
  list(GET row 2 level)
  list(GET row 3 flags)
  separate_arguments(command UNIX_COMMAND "${command}")
  list(POP_FRONT command program)
  set(musts "")
  if(flags MATCHES "trace")
    list(APPEND musts --must "allocated at")
  endif()
  if(flags MATCHES "traces")
    list(APPEND musts --must "freed at")
  endif()
  set(options "")
  if(flags MATCHES "HAKMEM_[A-Z_]+=[0-9]+")
    set(options --set ${CMAKE_MATCH_0})
  endif()
  if(NOT DEFINED number_of_${kind})
    set(number_of_${kind} 0)
  endif()
  math(EXPR number_of_${kind} "${number_of_${kind}} + 1")
  set(name misuse.${kind}.${number_of_${kind}})
  set(run $<TARGET_FILE:misuse-${program}> ${command})
  misuse_test(${name} hakmem-validate --kind ${kind} --level ${level} ${musts} ${options} --reports ${reports} ${run})
  set(line ${program} ${command} at level ${level})
  string(REPLACE ";" " " line "${line}")
  string(APPEND rows "${line}\n")
  if(flags MATCHES "stays")
    misuse_test(${name}.goes-on hakmem-validate --kind ${kind} --level ${level} --goes-on ${options} ${run})
  endif()
  misuse_test(${name}.release hakmem ${run})
endforeach()

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/misuse/rows.txt CONTENT "${rows}" @ONLY)
add_test(NAME misuse.reports COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/misuse/check --reports ${reports}
  --rows ${CMAKE_BINARY_DIR}/misuse/rows.txt)
set_tests_properties(misuse.reports PROPERTIES LABELS misuse TIMEOUT 300)

add_test(NAME misuse.kinds COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/misuse/kinds/measure
  --library $<TARGET_FILE:hakmem-validate> --programs ${CMAKE_BINARY_DIR}/misuse/kinds
  --page ${PROJECT_SOURCE_DIR}/docs/debug.md)
set_tests_properties(misuse.kinds PROPERTIES LABELS misuse TIMEOUT 600)

add_test(NAME misuse.attacks COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/misuse/attacks/measure
  --build ${CMAKE_BINARY_DIR} --page ${PROJECT_SOURCE_DIR}/docs/security.md)
set_tests_properties(misuse.attacks PROPERTIES LABELS misuse TIMEOUT 600)

# A program that gives up has misused nothing. That must count as a failure, even if no kind is expected.
misuse_test(misuse.gives_up hakmem $<TARGET_FILE:misuse-double_free>)
set_tests_properties(misuse.gives_up PROPERTIES WILL_FAIL TRUE)
