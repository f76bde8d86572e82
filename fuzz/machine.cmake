# The allocator as the op targets use it (stress/explore): threads are coroutines, each atomic access may be a switch,
# its variables are in one place, and nothing of it runs before main. Also the machine that runs sequences of ops on it.

set(explore ${PROJECT_SOURCE_DIR}/stress/explore)
foreach(part CORE CHECKS)
  get_directory_property(${part} DIRECTORY ${PROJECT_SOURCE_DIR}/alloc DEFINITION ${part})
  list(REMOVE_ITEM ${part} entry/start.c)
  list(TRANSFORM ${part} PREPEND ${PROJECT_SOURCE_DIR}/alloc/)
endforeach()

# The inspector judges, so it is not instrumented.
set(inspector ${PROJECT_SOURCE_DIR}/alloc/debug/inspect.c)
list(REMOVE_ITEM CHECKS ${inspector})

# fuzz_fibers(SUFFIX VALIDATE INSTRUMENTED FILE...): the objects hakmem_fibers${SUFFIX} and explore_inside${SUFFIX}; see
# stress/explore/CMakeLists.txt.
function(fuzz_fibers suffix validate instrumented)
  fuzz_allocator(hakmem_fibers${suffix} ${validate} ${instrumented} ${ARGN})
  foreach(engine IN ITEMS "" "-afl")
    explore_points(hakmem_fibers${suffix}${engine})
    explore_inside_objects(explore_inside${suffix}${engine} ${validate} ${inspector})
  endforeach()
endfunction()
fuzz_fibers("" 1 fuzz_instrumented ${CORE} ${CHECKS})
set(fuzz_light) # in other trees they would be the same objects
if(HAKMEM_FUZZ)
  set(fuzz_light _light)
  fuzz_fibers(_light 1 fuzz_light ${CORE} ${CHECKS})
endif()
fuzz_fibers(_release 0 fuzz_instrumented ${CORE} ${PROJECT_SOURCE_DIR}/alloc/base/sync_point.c)

# The same for ThreadSanitizer, which sees coroutines as threads: explore/fibers/fiber.h.
if(HAKMEM_FUZZ AND NOT HAKMEM_FUZZ_ENGINE)
  hakmem_objects(hakmem_fibers_thread 1 1 ${CORE} ${CHECKS})
  set_target_properties(hakmem_fibers_thread PROPERTIES EXCLUDE_FROM_ALL ON)
  explore_points(hakmem_fibers_thread)
  target_compile_options(hakmem_fibers_thread PRIVATE -g -fno-omit-frame-pointer -fsanitize=thread,fuzzer-no-link)
endif()

# The part of the suite's engine that runs and judges one op, with the allocator linked in. fuzz_machine(SUFFIX
# FULL_LOG2): blocks of up to 2^FULL_LOG2 bytes are filled and checked in full (engine/op/content.h).
set(engine ${PROJECT_SOURCE_DIR}/stress/engine)
set_source_files_properties(${engine}/seat/interp.cc PROPERTIES COMPILE_OPTIONS "-include;${explore}/inside/own_libc.h")
function(fuzz_machine suffix full_log2)
  set(name fuzz_machine${suffix})
  add_library(${name} STATIC op_machine.cc no_scheduler.cc
    ${engine}/base/mapped.cc ${engine}/op/content.cc ${engine}/op/latency.cc
    ${engine}/judge/claim_map.cc ${engine}/judge/failure.cc ${engine}/judge/line_map.cc ${engine}/judge/oracle.cc
    ${engine}/seat/interp.cc ${engine}/seat/schedule_mark.cc ${PROJECT_SOURCE_DIR}/stress/program/op_print.cc)
  fuzz_harness(${name})
  target_compile_definitions(${name} PRIVATE HAKMEM_STRESS_DIRECT=1 STRESS_CONTENT_FULL_LOG2=${full_log2})
  # unwatched: code that moves the memory of the allocator about, and is not itself under test
  target_compile_options(${name} PRIVATE -fno-sanitize=all -O2
    -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -fno-builtin-aligned_alloc)
  target_link_libraries(${name} PUBLIC ${HAKMEM_FMT} explore_fibers fuzz_op)
  hakmem_unity(${name})
endfunction()
fuzz_machine("" 15)
fuzz_machine(_light 13) # for schedules, which depend on which blocks meet, not on their sizes

# The release build of the allocator runs only the single-threaded corpus: it has no hook to say that a thread waits for
# a lock.
add_executable(fuzz_ops-release-replay fuzz_ops.cc shape_ops.cc $<TARGET_OBJECTS:fuzz_replay_main>
  $<TARGET_OBJECTS:hakmem_fibers_release>
  $<TARGET_OBJECTS:explore_inside_release>)
fuzz_harness(fuzz_ops-release-replay)
target_link_libraries(fuzz_ops-release-replay PRIVATE fuzz_op fuzz_machine fuzz_sanitized_link Threads::Threads)
add_dependencies(fuzz fuzz_ops-release-replay)
fuzz_finds(fuzz_ops finds)
add_test(NAME fuzz.replay.fuzz_ops.release
  COMMAND fuzz_ops-release-replay ${PROJECT_SOURCE_DIR}/corpus/ops ${finds})
set_tests_properties(fuzz.replay.fuzz_ops.release PROPERTIES LABELS "fuzz;unit" TIMEOUT 900)
