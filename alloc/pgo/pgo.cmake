# HAKMEM_PGO: libhakmem.so compiled with a profile of itself, in three steps of one build.
#   hakmem-instrumented   the same sources and options, with counters
#   hakmem_profile        runs the suite's loops on it (train.cmake) and merges its counts into pgo/hakmem.profdata
#   hakmem                compiled with that profile, and again when the profile changes
# The training programs must not depend on hakmem themselves. The other libraries of the tree know nothing of this.

set(pgo_folder ${CMAKE_BINARY_DIR}/pgo)
set(profile ${pgo_folder}/hakmem.profdata)


# --- with counters -----------------------------------------------------------------------------------

hakmem_shared(hakmem-instrumented 0)
set_target_properties(hakmem-instrumented PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${pgo_folder})
# Atomic, so that no counts of threads are lost.
target_compile_options(hakmem-instrumented PRIVATE -fprofile-instr-generate -fprofile-update=atomic)
target_link_options(hakmem-instrumented PRIVATE -fprofile-instr-generate)

# --- trained -----------------------------------------------------------------------------------------

# hakmem-bench may be defined after this file, or not at all.
set(bench $<$<TARGET_EXISTS:hakmem-bench>:$<TARGET_FILE:hakmem-bench>>)
add_custom_command(
  OUTPUT ${profile}
  COMMAND ${CMAKE_COMMAND} -DLIBRARY=$<TARGET_FILE:hakmem-instrumented> -DSTRESS=$<TARGET_FILE:hakmem-stress>
          -DBENCH=${bench} -DPROFDATA=${HAKMEM_PROFDATA} -DPROFILE=${profile}
          -P ${CMAKE_CURRENT_LIST_DIR}/train.cmake
  DEPENDS hakmem-instrumented hakmem-stress ${bench} ${CMAKE_CURRENT_LIST_DIR}/train.cmake
  COMMENT "Training ${profile}"
  VERBATIM)
add_custom_target(hakmem_profile DEPENDS ${profile})

# --- with the profile ---------------------------------------------------------------------------------

# The C++ operators (hakmem_new) are compiled without the profile: the training programs are C, so it would make them
# cold.
add_dependencies(hakmem hakmem_profile)
# The compiler does not list the profile among its inputs, so -fdepfile-entry adds it. The profile is of these very
# sources, so a function whose profile does not match is an error.
target_compile_options(hakmem PRIVATE -fprofile-instr-use=${profile} "SHELL:-Xclang \"-fdepfile-entry=${profile}\"")
