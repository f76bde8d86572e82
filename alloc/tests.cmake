# The unit tests: one ctest test for each GoogleTest suite, with the validating and with the release objects. Only the
# programs at the end have their malloc replaced.

set(TESTS
    base/bits_test.cc base/sizeclass_test.cc
    os/process/exported_test.cc os/lock_test.cc os/meta_test.cc os/os_fault_test.cc os/os_linux_test.cc os/os_refused_test.cc os/os_write_test.cc os/peek_test.cc
    report/process_test.cc report/writer_test.cc
    superslab/backing_test.cc superslab/index_test.cc superslab/pagemap_test.cc superslab/pool_test.cc superslab/pool_threads_test.cc superslab/purge_law_test.cc superslab/purge_test.cc
    superslab/superslab_test.cc superslab/tight_test.cc
    slab/begin_test.cc slab/owner_test.cc slab/remote_test.cc slab/slab_test.cc slab/trim_pages_test.cc slab/trim_test.cc
    cache/borrow_test.cc cache/cached_test.cc cache/cancel_test.cc cache/law/credits_law_test.cc cache/law/steps_law_test.cc cache/law/visit_law_test.cc cache/credits_test.cc cache/fork_test.cc cache/owed_test.cc cache/succession_test.cc cache/steps_test.cc cache/tcache_test.cc cache/thread_test.cc
    cache/visit_test.cc
    heap/bound_law_test.cc heap/bound_test.cc heap/calloc_test.cc heap/fault_test.cc heap/huge_cache_test.cc heap/huge_law_test.cc heap/huge_test.cc heap/kept_test.cc heap/large_test.cc heap/limit_test.cc heap/own_fork_test.cc heap/own_law_test.cc heap/own_limit_test.cc heap/own_test.cc
    heap/realloc_test.cc heap/swings_test.cc
    control/amount_test.cc control/background_test.cc control/options_test.cc control/stats_test.cc control/stats_write_test.cc
    debug/describe_test.cc debug/inspect_test.cc
    report/modules_test.cc crash/bounds_test.cc crash/crash_modules_test.cc crash/crash_stack_test.cc crash/record_write_test.cc
    entry/api_test.cc entry/cxx_test.cc entry/errno_test.cc entry/failure_test.cc entry/filter_test.cc entry/frugal_test.cc entry/fork_every_step_test.cc entry/overcommit_test.cc
    litmus/crash_litmus_test.cc litmus/pages_litmus_test.cc litmus/remote_litmus_test.cc litmus/thread_litmus_test.cc)
# Tests of the release build only.
set(RELEASE_TESTS
    guard/guard_law_test.cc guard/guard_rate_test.cc guard/guard_report_test.cc guard/guard_test.cc
    profile/profile_block_test.cc profile/profile_file_test.cc profile/profile_test.cc profile/sampler_test.cc profile/stacks_test.cc
    slab/slab_law_test.cc
    cache/defrag_test.cc cache/broken_test.cc
    litmus/guard_litmus_test.cc)
# Death tests, since a failed check ends the process.
set(VALIDATE_TESTS
    os/hooks_test.cc os/maps_test.cc
    report/report_test.cc
    slab/validate_test.cc slab/trim_law_test.cc
    cache/fork_lock_test.cc cache/fork_step_test.cc cache/gaps_test.cc
    debug/fault/sealed_test.cc debug/frame_death_test.cc debug/frame_law_test.cc debug/frame_test.cc debug/quarantine_test.cc debug/sweep_test.cc debug/bad_pointer_test.cc debug/trace_test.cc
    litmus/quarantine_litmus_test.cc litmus/report_litmus_test.cc)
# Modules that the last of these loads. The one with delete has the older table of names.
if(NOT HAKMEM_SANITIZE AND NOT HAKMEM_STATIC_ONLY AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  list(APPEND VALIDATE_TESTS debug/operators_test.cc)
  foreach(module "new|_Znwm|1|gnu|_ZdlPv" "delete|_ZdaPvm|0|sysv|_Znwm")
    string(REPLACE "|" ";" module "${module}")
    list(POP_FRONT module name operator takes_size table used)
    add_library(operators-${name} MODULE programs/operators_module.c)
    target_compile_definitions(operators-${name} PRIVATE OPERATOR=${operator} TAKES_SIZE=${takes_size} USED=${used})
    target_link_options(operators-${name} PRIVATE -Wl,--hash-style=${table})
    list(APPEND operator_modules operators-${name})
  endforeach()
endif()
# Each of these runs in a child whose heap has not started, so they are linked without the code that runs before main.
set(FRESH_TESTS cache/fresh_test.cc cache/phases_test.cc litmus/fresh_litmus_test.cc os/os_pages_test.cc superslab/fresh_limit_test.cc)
# A sanitizer stands before libc's mmap itself; musl declares it in another way.
if(NOT HAKMEM_SANITIZE AND NOT HAKMEM_STATIC_ONLY)
  list(APPEND FRESH_TESTS entry/golden_test.cc entry/golden_tools_test.cc)
  set(golden entry/golden_test_support.cc)
  set_source_files_properties(${golden} PROPERTIES
      COMPILE_DEFINITIONS GOLDEN_FILE="${CMAKE_CURRENT_SOURCE_DIR}/entry/golden.txt")
endif()

include(emulator.cmake)

# Suites that touch memory which is poisoned for the program: they act as layers of the heap, or damage its memory for
# our own checks to find. They run with the poisoning by the heap switched off.
set(BELOW_THE_PROGRAM
    Pool PoolThreads Purge PurgeBesideGaps PurgeLaw Owner OwnerMeeting Remote Slab Trim TrimPages Tcache Describe Inspect LitmusRemote
    BrokenDeathTest FrameDeathTest ValidateDeathTest)

# Adds a ctest test for every suite in the files.
function(hakmem_add_suites program prefix)
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(STRINGS ${file} lines REGEX "^TEST[A-Z_]*\\(")
    list(TRANSFORM lines REPLACE "^TEST[A-Z_]*\\(([A-Za-z0-9_]+).*" "\\1" OUTPUT_VARIABLE suites)
    list(REMOVE_DUPLICATES suites)
    foreach(suite IN LISTS suites)
      hakmem_emulator_lacks(${prefix} ${suite} lacking)
      add_test(NAME ${prefix}/${suite} COMMAND ${program} --gtest_filter=${suite}.*${lacking})
      # These check the heap's inside with exact sizes, so blocks must have no frames.
      set_tests_properties(${prefix}/${suite} PROPERTIES LABELS unit TIMEOUT ${SUITE_TIMEOUT}
          ENVIRONMENT HAKMEM_FAILFAST_LEVEL=1)
      if(suite STREQUAL LitmusReport)
        set_property(TEST ${prefix}/${suite} APPEND PROPERTY ENVIRONMENT HAKMEM_FAILFAST=report)
      endif()
      if(HAKMEM_SANITIZE MATCHES address AND suite IN_LIST BELOW_THE_PROGRAM)
        set_tests_properties(${prefix}/${suite} PROPERTIES
            ENVIRONMENT_MODIFICATION ASAN_OPTIONS=string_append::allow_user_poisoning=0)
      endif()
      if(suite MATCHES "^(Cancel|Fault|Fork|ForkAtStep|ForkLock)$") # faults injected from outside; see stress/inject/tests.cmake
        set_property(TEST ${prefix}/${suite} APPEND PROPERTY LABELS inject)
      endif()
    endforeach()
  endforeach()
endfunction()

function(hakmem_test_flags name validate)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
                                             ${CMAKE_CURRENT_SOURCE_DIR}/include)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE HAKMEM_DEBUG_VALIDATION=${validate})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wundef -Werror
      -Wno-dangling-else) # GoogleTest's macros contain if and else
  target_link_libraries(${name} PRIVATE GTest::gtest_main Threads::Threads)
  hakmem_test_code(${name})
  # The C headers use atomics, for which C++23 has <stdatomic.h>.
  set_target_properties(${name} PROPERTIES CXX_STANDARD 23)
endfunction()

# Compiled once for the programs with the same objects.
set_source_files_properties(os/step_test_support.cc base/test_support.cc PROPERTIES COMPILE_OPTIONS -O2)
foreach(validate 0 1)
  add_library(alloc-tests-support-${validate} OBJECT os/step_test_support.cc base/test_support.cc)
  hakmem_test_flags(alloc-tests-support-${validate} ${validate})
endforeach()

function(hakmem_test_program name objects validate)
  add_executable(${name} ${ARGN} $<TARGET_OBJECTS:alloc-tests-support-${validate}> ${objects})
  hakmem_test_flags(${name} ${validate})
  hakmem_link_counters(${name})
  add_dependencies(alloc-programs ${name})
endfunction()

set(laws entry/laws_test_support.cc)
hakmem_test_program(alloc-tests $<TARGET_OBJECTS:alloc-tests-c> 1 ${TESTS} ${VALIDATE_TESTS} ${laws})
if(operator_modules)
  add_dependencies(alloc-tests ${operator_modules})
endif()
# With a sanitizer of clang, the suites that both builds have run with the validating objects alone: the scenarios run the
# release objects there, and the trees asan-gcc and tsan-gcc run these suites on both.
set(release_runs ${TESTS})
if(HAKMEM_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(release_runs "")
endif()
hakmem_test_program(alloc-tests-release "${RELEASE_OBJECTS}" 0 ${release_runs} ${RELEASE_TESTS} ${laws})
foreach(program alloc-tests alloc-tests-release)
  hakmem_precompile(${program} <gtest/gtest.h> <algorithm> <atomic> <functional> <map> <set> <string> <thread> <vector>)
endforeach()
hakmem_add_suites(alloc-tests unit ${TESTS} ${VALIDATE_TESTS})
hakmem_add_suites(alloc-tests-release unit-release ${release_runs} ${RELEASE_TESTS})

set(not_start "start\\.c")
hakmem_test_program(alloc-tests-fresh
    "$<FILTER:$<TARGET_OBJECTS:alloc-tests-c>,EXCLUDE,${not_start}>" 1 ${FRESH_TESTS} ${golden})
hakmem_precompile(alloc-tests-fresh REUSE_FROM alloc-tests)
hakmem_add_suites(alloc-tests-fresh unit ${FRESH_TESTS})
if(release_runs)
  hakmem_test_program(alloc-tests-fresh-release
      "$<FILTER:${RELEASE_OBJECTS},EXCLUDE,${not_start}>" 0 ${FRESH_TESTS} ${golden})
  hakmem_precompile(alloc-tests-fresh-release REUSE_FROM alloc-tests-release)
  hakmem_add_suites(alloc-tests-fresh-release unit-release ${FRESH_TESTS})
endif()
if(golden)
  # Each call to the system and each look at the clock goes through the test: see golden_test_support.cc.
  target_link_options(alloc-tests-fresh PRIVATE LINKER:--wrap=call_system,--wrap=clock_read)
  if(TARGET alloc-tests-fresh-release)
    target_link_options(alloc-tests-fresh-release PRIVATE LINKER:--wrap=call_system,--wrap=clock_read)
  endif()
  add_test(NAME unit/Golden.level3 COMMAND alloc-tests-fresh --gtest_filter=Golden.*:GoldenTools.*)
  set_tests_properties(unit/Golden.level3 PROPERTIES LABELS unit TIMEOUT ${SUITE_TIMEOUT} ENVIRONMENT HAKMEM_FAILFAST_LEVEL=3)
endif()

# With frames and traces, where a size that is too large is reported too.
add_test(NAME unit/Errno.level3 COMMAND alloc-tests --gtest_filter=Errno.*)
set_tests_properties(unit/Errno.level3 PROPERTIES LABELS unit TIMEOUT ${SUITE_TIMEOUT} ENVIRONMENT
  "HAKMEM_FAILFAST_LEVEL=3;HAKMEM_FAILFAST=report")

# The heap profile's estimates with 50 seeds.
if(NOT HAKMEM_SANITIZE AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  add_test(NAME unit-release/Profile.seeds COMMAND alloc-tests-release --gtest_filter=Profile.*)
  set_tests_properties(unit-release/Profile.seeds PROPERTIES LABELS unit TIMEOUT 900 ENVIRONMENT HAKMEM_PROFILE_SEEDS=50)
endif()

# A fork at each step of each public function, and not at some.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND NOT HAKMEM_SANITIZE)
  add_test(NAME unit/ForkEveryStep.all COMMAND alloc-tests --gtest_filter=ForkEveryStep.*)
  add_test(NAME unit-release/ForkEveryStep.all COMMAND alloc-tests-release --gtest_filter=ForkEveryStep.*)
  set_tests_properties(unit/ForkEveryStep.all unit-release/ForkEveryStep.all PROPERTIES LABELS unit TIMEOUT 3600
      ENVIRONMENT "HAKMEM_FAILFAST_LEVEL=1;HAKMEM_TEST_STRIDE=1")
endif()

# The heap's own suites again, as if the system had larger pages. Each calls the system with ranges of whole pages, or ends.
if(NOT HAKMEM_SANITIZE AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  foreach(page_bytes 16384 65536)
    set(suites Superslab.*:PageMap.*:Pool.*:PoolThreads.*:Purge.*:PurgeLaw.*:Slab.*:TrimTimes.*:Large.*:Huge.*:Realloc.*:Api.*:Inspect.*)
    if(page_bytes EQUAL 16384)
      string(APPEND suites ":Tight.*") # where pages have 64 KiB, a mapping is no shorter than a run
    endif()
    add_test(NAME unit-release/pages.${page_bytes}
        COMMAND alloc-tests-release --gtest_brief=1 --gtest_filter=${suites}:Guard.*)
    # Trim's other tests say how much goes back where pages have 4 KiB.
    add_test(NAME unit-release/pages.trim.${page_bytes} COMMAND alloc-tests-release --gtest_brief=1
        --gtest_filter=Trim.*:TrimThreads.*:-Trim.MemoryGoesBack:Trim.AHollowSlabIsTrimmedFurther:Trim.AHeapThatShrinksTrimsItself)
    add_test(NAME program/threads-hak.pages.${page_bytes} COMMAND threads-hak)
    add_test(NAME program/threads-hak-validate.pages.${page_bytes} COMMAND threads-hak-validate 10000)
    set_tests_properties(unit-release/pages.${page_bytes} unit-release/pages.trim.${page_bytes}
        program/threads-hak.pages.${page_bytes} program/threads-hak-validate.pages.${page_bytes}
        PROPERTIES LABELS unit TIMEOUT ${SUITE_TIMEOUT} ENVIRONMENT HAKMEM_TEST_PAGE_BYTES=${page_bytes})
  endforeach()
endif()

# --- malloc replaced, by preloading and by linking -------------------------------------------

if(HAKMEM_SANITIZE)
  return() # the sanitizer has its own malloc
endif()

hakmem_link_program(static-cxx programs/static_program.cc)
target_link_libraries(static-cxx PRIVATE ${override} ${override_cxx})

if(HAKMEM_STATIC_ONLY)
  return()
endif()

# hakmem_add_preload_test(NAME LIBRARY [VARIABLES VARIABLE=VALUE...] PROGRAM FILE [ARGUMENT]...)
function(hakmem_add_preload_test name library)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "VARIABLES;PROGRAM")
  set(variables LD_PRELOAD=$<TARGET_FILE:${library}> ${arg_VARIABLES})
  set(runner ${CMAKE_COMMAND} -E env)
  if(CMAKE_CROSSCOMPILING_EMULATOR) # the emulator itself, a program of the host, must not be preloaded
    set(runner ${CMAKE_CROSSCOMPILING_EMULATOR})
    list(TRANSFORM variables PREPEND "-E;")
  endif()
  hakmem_add_override_test(${name} ${runner} ${variables} ${arg_PROGRAM})
endfunction()

add_executable(override-tests
    programs/override_test.cc programs/override_fork_test.cc programs/override_names_test.cc programs/override_new_test.cc)
target_include_directories(override-tests PRIVATE ${hakmem_includes})
target_compile_options(override-tests PRIVATE -Wall -Wextra -Wundef -Werror -Wno-dangling-else -fno-builtin)
target_link_libraries(override-tests PRIVATE GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
hakmem_test_code(override-tests)
hakmem_unity(override-tests)

# Its hak_stats_get is weak: it resolves only if the library is preloaded.
add_executable(plain-program programs/plain_program.c)
target_include_directories(plain-program PRIVATE ${hakmem_includes})
target_link_libraries(plain-program PRIVATE Threads::Threads)

hakmem_c_program(hooked-program programs/hooked_program.c)
set_target_properties(hooked-program PROPERTIES ENABLE_EXPORTS ON)

# Each function of libc that the libraries call, interposed by one that allocates. Counters of coverage call more of them.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND NOT HAKMEM_COVERAGE)
  add_library(interpose-shim MODULE programs/interpose/shim.c)
  target_compile_definitions(interpose-shim PRIVATE _GNU_SOURCE)
  target_compile_options(interpose-shim PRIVATE -Wall -Wextra -Wundef -Wshadow -Wconversion -Werror -fno-builtin -ftls-model=initial-exec)
  add_dependencies(alloc-programs interpose-shim)
  add_test(NAME override/interpose COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/interpose/check
      --shim $<TARGET_FILE:interpose-shim> --program $<TARGET_FILE:hooked-program> --work ${CMAKE_CURRENT_BINARY_DIR}/interpose
      $<TARGET_FILE:hakmem> $<TARGET_FILE:hakmem-validate>)
  set_tests_properties(override/interpose PROPERTIES LABELS unit TIMEOUT 600)
endif()

# Programs that replace some of the operators new and delete.
if(NOT CMAKE_CROSSCOMPILING_EMULATOR)
  add_library(replaced-operators OBJECT programs/replaced/operators.cc)
  add_executable(replaced-program programs/replaced/program.cc)
  set_target_properties(replaced-operators replaced-program PROPERTIES POSITION_INDEPENDENT_CODE ON ENABLE_EXPORTS ON)
  foreach(target replaced-operators replaced-program)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wundef -Werror -fno-builtin)
    add_dependencies(alloc-programs ${target})
  endforeach()
  add_test(NAME override/replaced COMMAND ${CMAKE_COMMAND} -E env CXX=${CMAKE_CXX_COMPILER} ${Python3_EXECUTABLE}
      ${CMAKE_CURRENT_SOURCE_DIR}/programs/replaced/check --program $<TARGET_FILE:replaced-program>
      --objects $<TARGET_OBJECTS:replaced-operators> --work ${CMAKE_CURRENT_BINARY_DIR}/replaced
      $<TARGET_FILE:hakmem> $<TARGET_FILE:hakmem-validate>)
  set_tests_properties(override/replaced PROPERTIES LABELS unit TIMEOUT 300)
endif()

if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  hakmem_c_program(registers-program programs/registers_program.c)
  hakmem_c_program(exit-program programs/anywhere/exit_program.c)
endif()

hakmem_c_program(pairs-program programs/pairs_program.c) # stress.pairs runs it with the options

# With more thread-local data than a small stack has room for.
foreach(bytes 16 50000 54000 58000 200000 3000000)
  hakmem_c_program(stack-program-${bytes} programs/stack_program.c)
  target_compile_definitions(stack-program-${bytes} PRIVATE MINE_BYTES=${bytes})
  target_link_options(stack-program-${bytes} PRIVATE -Wl,-z,now)
endforeach()

hakmem_c_program(filter-program programs/filter_program.c)
add_library(filter-preload MODULE programs/filter_preload.c)
target_compile_options(filter-preload PRIVATE -Wall -Wextra -Wundef -Werror)
target_compile_definitions(filter-preload PRIVATE _GNU_SOURCE)
target_link_libraries(filter-preload PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(alloc-programs filter-preload)
hakmem_c_program(locked-program programs/locked_program.c)

add_dependencies(alloc-programs override-tests plain-program)
hakmem_emulator_lacks(override OverrideNew lacking)
hakmem_add_override_test(override/libc override-tests --gtest_filter=*${lacking})
if(NOT CMAKE_CROSSCOMPILING_EMULATOR)
  add_executable(profile-program programs/profile_program.cc)
  target_compile_options(profile-program PRIVATE -g) # the check expects functions, files and lines
  target_link_options(profile-program PRIVATE -Wl,--build-id)
  target_link_libraries(profile-program PRIVATE Threads::Threads)
  add_dependencies(alloc-programs profile-program)
  set(check ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/profile_check $<TARGET_FILE:hakmem>
      $<TARGET_FILE:profile-program>)
  hakmem_add_override_test(override/hakmem-profile ${check})
  hakmem_add_override_test(override/hakmem-profile-pprof ${check} ${PROJECT_SOURCE_DIR}/build/pprof)
  add_executable(modules-program programs/modules_program.c)
  target_link_libraries(modules-program PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(alloc-programs modules-program)
  # Two libraries that fit at the same place. Their stacks are whole at level 3, and their names are in the programs' files.
  foreach(name plugin others)
    add_library(modules-${name} MODULE programs/modules_plugin.c)
    target_compile_definitions(modules-${name} PRIVATE NAME=${name} VALUE=$<IF:$<STREQUAL:${name},plugin>,2,3>)
    set_target_properties(modules-${name} PROPERTIES PREFIX "")
    add_dependencies(modules-program modules-${name})
  endforeach()
  foreach(name program plugin others)
    target_compile_options(modules-${name} PRIVATE -Wall -Wextra -Wundef -Werror -g -O1 -fno-builtin -fno-omit-frame-pointer)
    target_compile_definitions(modules-${name} PRIVATE _GNU_SOURCE)
    target_link_options(modules-${name} PRIVATE -Wl,--build-id)
  endforeach()
  set(check ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/programs/modules_check $<TARGET_FILE:hakmem>
      $<TARGET_FILE:hakmem-validate> $<TARGET_FILE:modules-program> $<TARGET_FILE:modules-plugin>
      $<TARGET_FILE:modules-others>)
  hakmem_add_override_test(override/modules ${check})
  hakmem_add_override_test(override/modules-pprof ${check} --pprof ${PROJECT_SOURCE_DIR}/build/pprof)
  set_tests_properties(override/hakmem-profile-pprof override/modules-pprof PROPERTIES SKIP_RETURN_CODE 77)
endif()
foreach(library hakmem hakmem-validate)
  add_dependencies(override-tests ${library})
  if(NOT CMAKE_CROSSCOMPILING_EMULATOR)
    hakmem_add_preload_test(override/${library}-limit-set-later ${library} PROGRAM ${Python3_EXECUTABLE} -c
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30,) * 2); bytearray(100 << 20)")
    hakmem_add_override_test(override/${library}-stats ${Python3_EXECUTABLE}
        ${CMAKE_CURRENT_SOURCE_DIR}/programs/stats_check $<TARGET_FILE:${library}>)
    hakmem_add_override_test(override/${library}-stack ${Python3_EXECUTABLE}
        ${CMAKE_CURRENT_SOURCE_DIR}/programs/stack_check $<TARGET_FILE:${library}> $<TARGET_FILE_DIR:stack-program-16>)
    hakmem_add_override_test(override/${library}-filter ${Python3_EXECUTABLE}
        ${CMAKE_CURRENT_SOURCE_DIR}/programs/filter_check $<TARGET_FILE:${library}> $<TARGET_FILE:filter-program>
        $<TARGET_FILE:filter-preload> $<TARGET_FILE:hakmem-stress>)
    set_tests_properties(override/${library}-filter PROPERTIES SKIP_RETURN_CODE 77)
    # The validating library has tables of 4 MiB.
    hakmem_add_preload_test(override/${library}-locked ${library}
        PROGRAM $<TARGET_FILE:locked-program> $<$<STREQUAL:${library},hakmem-validate>:lock>)
  endif()
  hakmem_add_preload_test(override/${library} ${library}
      VARIABLES HAKMEM_TEST_LIBRARY=$<TARGET_FILE_NAME:${library}> PROGRAM $<TARGET_FILE:override-tests> --gtest_filter=*${lacking})
  hakmem_add_preload_test(override/${library}-without-cxx ${library} PROGRAM $<TARGET_FILE:plain-program> libstdc++)
  set(files ${CMAKE_CURRENT_BINARY_DIR}/hooked-${library})
  file(MAKE_DIRECTORY ${files})
  hakmem_add_preload_test(override/${library}-hooked ${library} PROGRAM $<TARGET_FILE:hooked-program>)
  hakmem_add_preload_test(override/${library}-hooked-options ${library} VARIABLES HAKMEM_BACKGROUND=1 HAKMEM_HUGE_PAGES=2
      HAKMEM_GUARD_SAMPLE=1000 HAKMEM_CRASH_DIR=${files} HAKMEM_STATS=json:${files}/stats
      HAKMEM_STATS_SIGNAL=10 HAKMEM_PROFILE=${files}/profile HAKMEM_PROFILE_SIGNAL=12 HAKMEM_PREWARM=8M HAKMEM_PROFILE_STEP_MIB=1
      PROGRAM $<TARGET_FILE:hooked-program>)
  if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
    hakmem_add_preload_test(override/${library}-exit-anywhere ${library} PROGRAM $<TARGET_FILE:exit-program> $<IF:$<STREQUAL:${library},hakmem>,7,97>)
    # Each copy that exits while the call holds a lock takes a second.
    hakmem_add_preload_test(override/${library}-exit-anywhere-stats ${library} VARIABLES HAKMEM_STATS=json:${files}/exit
        PROGRAM $<TARGET_FILE:exit-program> $<IF:$<STREQUAL:${library},hakmem>,311,2999>)
    set(options HAKMEM_BACKGROUND=1 HAKMEM_GUARD_SAMPLE=1000
        HAKMEM_STATS=json:${files}/stats HAKMEM_STATS_SIGNAL=10 HAKMEM_PROFILE=${files}/profile,64K HAKMEM_PROFILE_SIGNAL=12
        HAKMEM_PROFILE_STEP_MIB=1)
    hakmem_add_preload_test(override/${library}-misaligned ${library} PROGRAM $<TARGET_FILE:registers-program> stack)
    hakmem_add_preload_test(override/${library}-misaligned-options ${library} VARIABLES ${options}
        PROGRAM $<TARGET_FILE:registers-program> stack)
    hakmem_add_preload_test(override/${library}-floating ${library} VARIABLES ${options}
        PROGRAM $<TARGET_FILE:registers-program> floating)
  endif()
  # Each of these makes a call at the start fail.
  hakmem_add_preload_test(override/${library}-start-errno ${library} VARIABLES HAKMEM_STATS_SIGNAL=9
      HAKMEM_PROFILE=/dev/null/none HAKMEM_PROFILE_SIGNAL=9 PROGRAM $<TARGET_FILE:plain-program>)
  # To start a profile, libc loads a library, for which there is no memory here. Step 1 of the program is errno, step 2 malloc.
  set(test override/${library}-start-errno-limited)
  hakmem_add_preload_test(${test} ${library} VARIABLES HAKMEM_LIMIT=64K HAKMEM_PROFILE=/dev/null/none
      PROGRAM $<TARGET_FILE:plain-program>)
  set_tests_properties(${test} PROPERTIES PASS_REGULAR_EXPRESSION "step 2 failed")
endforeach()

if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64 AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  foreach(level 1 2 3)
    set(test override/hakmem-validate-misaligned-report.${level})
    add_test(NAME ${test} COMMAND sh -c "LD_PRELOAD='$<TARGET_FILE:hakmem-validate>' '$<TARGET_FILE:registers-program>' report; \
        echo status $?")
    set_tests_properties(${test} PROPERTIES LABELS unit TIMEOUT 60 ENVIRONMENT HAKMEM_FAILFAST_LEVEL=${level}
        PASS_REGULAR_EXPRESSION "double_free.*next: .*status 134")
  endforeach()
endif()

# --- ways of loading -------------------------------------------------------------------------------------------

if(CMAKE_CROSSCOMPILING_EMULATOR)
  return() # the emulator has a start and a loader of its own
endif()

add_custom_target(loading-programs)
add_dependencies(alloc-programs loading-programs)
hakmem_c_program(loading-program programs/loading_program.c)
hakmem_c_program(loading-own-malloc programs/loading_own_malloc.c)
add_dependencies(loading-programs loading-program loading-own-malloc)
set_target_properties(loading-own-malloc PROPERTIES ENABLE_EXPORTS ON)
foreach(module IN ITEMS module wrapper)
  add_library(loading-${module} MODULE programs/loading_${module}.c)
  target_include_directories(loading-${module} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(loading-${module} PRIVATE _GNU_SOURCE
      "LOADING_DATA=__thread __attribute__((tls_model(\"initial-exec\")))")
  target_compile_options(loading-${module} PRIVATE -Wall -Wextra -Wundef -Werror -fno-builtin
      -fsemantic-interposition) # the wrapper's own calls are the first library's, too
  target_link_libraries(loading-${module} PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(loading-programs loading-${module})
endforeach()
add_dependencies(loading-programs hakmem-nodeepbind hakmem_archive hakmem_override_object)

set(check ${CMAKE_CURRENT_SOURCE_DIR}/programs/loading_check)
execute_process(COMMAND ${check} --list OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" names "${names}")
foreach(library hakmem hakmem-validate)
  add_dependencies(loading-programs ${library})
  foreach(name IN LISTS names)
    if(library STREQUAL hakmem-validate AND name MATCHES "^static")
      continue() # has no archive; program/threads-malloc-validate links its objects
    endif()
    add_test(NAME loading.${name}.${library}
        COMMAND ${check} --build ${CMAKE_BINARY_DIR} $<TARGET_FILE:${library}> ${name})
    set_tests_properties(loading.${name}.${library} PROPERTIES LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77
        ENVIRONMENT CC=${CMAKE_C_COMPILER})
    if(name MATCHES "tls-full$")
      set_tests_properties(loading.${name}.${library} PROPERTIES
          PASS_REGULAR_EXPRESSION "^refused ${name}: [^\n]*: cannot allocate memory in static TLS block")
    endif()
  endforeach()
endforeach()
# libhakmem-dl.so is not part of the tree: the first test makes it.
add_test(NAME loading.make.hakmem-dl COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target hakmem-dl)
set_tests_properties(loading.make.hakmem-dl PROPERTIES LABELS unit TIMEOUT 600 FIXTURES_SETUP hakmem-dl)
add_test(NAME loading.glibc.hakmem-dl
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/ci/lint/release_surface --glibc $<TARGET_FILE:hakmem-dl>)
set_tests_properties(loading.glibc.hakmem-dl PROPERTIES LABELS unit TIMEOUT 300 FIXTURES_REQUIRED hakmem-dl)
foreach(name dlopen dlopen-tls-full plugin-tls-full small-stacks many-threads children)
  add_test(NAME loading.${name}.hakmem-dl COMMAND ${check} --build ${CMAKE_BINARY_DIR} $<TARGET_FILE:hakmem-dl> ${name})
  set_tests_properties(loading.${name}.hakmem-dl PROPERTIES LABELS unit TIMEOUT 300 FIXTURES_REQUIRED hakmem-dl
      ENVIRONMENT CC=${CMAKE_C_COMPILER} PASS_REGULAR_EXPRESSION "^pass ${name}\n")
endforeach()
