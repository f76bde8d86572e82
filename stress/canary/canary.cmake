# One library for each planted bug, canary/libcanary-<name>.so beside the program; see canary.c.
# canary_test.cc names the rule that must find each.
set(STRESS_CANARIES none overlap misaligned aligned_alloc content realloc_content calloc_zero usable_size errno enomem
  leak exhausted hang crash)

if(NOT STRESS_SANITIZED)
  foreach(bug IN LISTS STRESS_CANARIES)
    string(TOUPPER ${bug} BUG)
    add_library(canary-${bug} MODULE canary/canary.c)
    target_compile_definitions(canary-${bug} PRIVATE CANARY_BUG=CANARY_${BUG})
    target_compile_options(canary-${bug} PRIVATE -Wall -Wextra -fno-builtin)
    target_link_libraries(canary-${bug} PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(canary-${bug} PROPERTIES C_STANDARD 17 INTERPROCEDURAL_OPTIMIZATION OFF
      LIBRARY_OUTPUT_DIRECTORY $<TARGET_FILE_DIR:hakmem-stress>/canary)
  endforeach()
endif()
