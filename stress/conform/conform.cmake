# The conformance checks (see run.h), the files that they load or start, and the libraries with planted bugs that prove
# them.
set(CONFORM_SOURCES
  conform/aligned.cc
  conform/api.cc
  conform/calls.cc
  conform/check.cc
  conform/child.cc
  conform/deny.cc
  conform/files.cc
  conform/fork.cc
  conform/growth.cc
  conform/loading.cc
  conform/lost.cc
  conform/memory.cc
  conform/numbers.cc
  conform/operators.cc
  conform/os.cc
  conform/process.cc
  conform/report.cc
  conform/run.cc
  conform/secure.cc
  conform/sized.cc
  conform/subject.cc
  conform/support.cc
  conform/threads/meet.cc
  conform/threads/signal.cc
  conform/threads/step.cc
  conform/threads/thread.cc
  conform/zero.cc)

# conform_files(directory): modules and the program conform-fresh, built into that directory; target conform-files.
function(conform_files directory)
  add_executable(conform-fresh conform/plugin/fresh.c)
  target_link_libraries(conform-fresh PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(conform-fresh PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  add_executable(conform-secure conform/plugin/secure.c)
  foreach(plugin IN ITEMS tls static_tls constructor reenter begin_once late keys own_new)
    add_library(conform-${plugin} MODULE conform/plugin/${plugin}.c)
    target_link_libraries(conform-${plugin} PRIVATE ${CMAKE_DL_LIBS})
  endforeach()
  target_link_options(conform-own_new PRIVATE -Wl,-Bsymbolic)
  foreach(target IN ITEMS conform-fresh conform-secure conform-tls conform-static_tls conform-constructor conform-reenter
                          conform-begin_once conform-late conform-keys conform-own_new)
    # -fno-builtin keeps the compiler from dropping the very calls that are under test.
    target_compile_options(${target} PRIVATE -Wall -Wextra -fno-builtin)
    set_target_properties(${target} PROPERTIES C_STANDARD 17 INTERPROCEDURAL_OPTIMIZATION OFF
      LIBRARY_OUTPUT_DIRECTORY ${directory} RUNTIME_OUTPUT_DIRECTORY ${directory})
  endforeach()
  add_custom_target(conform-files
    DEPENDS conform-fresh conform-secure conform-tls conform-static_tls conform-constructor conform-reenter
            conform-begin_once conform-late conform-keys conform-own_new)
endfunction()

# conform_canaries(directory): one library for each planted bug, libconform-canary-<name>.so. canary/canary.c lists the
# bugs; canary_rows.h names the check that must find each.
set(CONFORM_CANARIES none malloc_errno ptrdiff_errno held popped calloc_wraps realloc_frees realloc_32_bits reallocarray_wraps usable_null
  no_pvalloc memalign_256 align_again memalign_wraps posix_pointer free_errno free_errno_denied calloc_dirty calloc_last_byte
  late_malloc only_free late_free realloc_null unload stack fork_lock fork_handlers static_tls loader_lock environ environ_exit getrandom mallopt helper
  cancel secure calloc_slack calloc_errno realloc_errno reallocarray_errno aligned_errno valloc_errno align_2_60
  realloc_steps calloc_touch leave_space begin_once late_library reallocarr_wraps posix_0 pvalloc_short reallocarray_null fork_fork fork_thread touch spin killed sluggish)
function(conform_canaries directory)
  add_custom_target(conform-canaries)
  foreach(bug IN LISTS CONFORM_CANARIES)
    string(TOUPPER ${bug} BUG)
    add_library(conform-canary-${bug} MODULE conform/canary/canary.c)
    target_compile_definitions(conform-canary-${bug} PRIVATE CONFORM_BUG=CONFORM_${BUG}
      CONFORM_BIG_TLS=$<STREQUAL:${bug},static_tls> CONFORM_WITHOUT_PVALLOC=$<STREQUAL:${bug},no_pvalloc>
      CONFORM_WITH_REALLOCARR=$<STREQUAL:${bug},reallocarr_wraps>)
    target_compile_options(conform-canary-${bug} PRIVATE -Wall -Wextra -fno-builtin)
    target_link_libraries(conform-canary-${bug} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
    set_target_properties(conform-canary-${bug} PROPERTIES C_STANDARD 17 INTERPROCEDURAL_OPTIMIZATION OFF
      LIBRARY_OUTPUT_DIRECTORY ${directory})
    add_dependencies(conform-canaries conform-canary-${bug})
  endforeach()
endfunction()
