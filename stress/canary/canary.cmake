# One library for each planted bug, canary/libcanary-<name>.so beside the program; see canary.c. canary_test.cc names
# the rule that must find it.
set(STRESS_CANARIES none count overlap double_handout misaligned aligned_alloc aligned_large content header
  realloc_content realloc_shrink calloc_zero calloc_dirty usable_size usable_more errno errno_wait enomem leak leak_slow
  leak_rare lost_remote retain mappings exhausted hang crash)

function(stress_canary bug)
  add_library(canary-${bug} MODULE ${ARGN})
  target_include_directories(canary-${bug} PRIVATE ${PROJECT_SOURCE_DIR}/stress)
  target_compile_options(canary-${bug} PRIVATE -Wall -Wextra -fno-builtin)
  target_link_libraries(canary-${bug} PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(canary-${bug} PROPERTIES C_STANDARD 17 INTERPROCEDURAL_OPTIMIZATION OFF
    LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:hakmem-stress>/canary)
endfunction()

if(NOT STRESS_SANITIZED)
  foreach(bug IN LISTS STRESS_CANARIES)
    string(TOUPPER ${bug} BUG)
    stress_canary(${bug} canary/canary.c canary/aligned_calls.c)
    target_compile_definitions(canary-${bug} PRIVATE CANARY_BUG=CANARY_${BUG})
  endforeach()
  foreach(bug IN ITEMS cancel_point fork_hang fork_crash fork_overlap destructor_crash oom_crash oom_for_ever oom_hang
      oom_killed oom_lost deep_stack own_thread)
    string(TOUPPER ${bug} BUG)
    stress_canary(${bug} canary/process_canary.c canary/aligned_calls.c)
    target_compile_definitions(canary-${bug} PRIVATE CANARY_BUG=CANARY_${BUG})
    list(APPEND STRESS_CANARIES ${bug})
  endforeach()
  stress_canary(oom_leak canary/process_canary.c canary/aligned_calls.c canary/books.c)
  target_compile_definitions(canary-oom_leak PRIVATE CANARY_BUG=CANARY_OOM_LEAK)
  target_include_directories(canary-oom_leak PRIVATE ${PROJECT_SOURCE_DIR}/alloc/include)
  stress_canary(deadlock canary/deadlock.c)
  stress_canary(waste canary/waste.c)
  stress_canary(law canary/canary.c canary/aligned_calls.c canary/law.c)
  target_compile_definitions(canary-law PRIVATE CANARY_BUG=CANARY_NONE)
  target_include_directories(canary-law PRIVATE ${PROJECT_SOURCE_DIR}/alloc/include)
  list(APPEND STRESS_CANARIES oom_leak deadlock law waste)
  # A malloc of its own with many bugs, one of which the environment chooses; see mini/bugs.h. The loader keeps it, since
  # its key's destructor runs at the end of threads.
  stress_canary(mini canary/mini/cache.c canary/mini/lock.c canary/mini/mapped.c canary/mini/mini.c canary/mini/slab.c)
  target_link_options(canary-mini PRIVATE -Wl,-z,nodelete)
  target_link_libraries(canary-mini PRIVATE Threads::Threads)
endif()
