# Tests that are C programs: of the heap by hak_*, and of malloc replaced by linking. A tree with HAKMEM_C_ONLY has no
# other tests; tests.cmake has the rest.

set(hakmem_includes ${CMAKE_CURRENT_SOURCE_DIR}/include)

hakmem_objects(alloc-tests-c 1 1 ${CORE} ${CHECKS} ${FAULTS})
target_compile_options(alloc-tests-c PRIVATE -fno-omit-frame-pointer) # as hakmem-validate
hakmem_count(alloc-tests-c)
# For tests of the release build: the objects of libhakmem.a, and the hook and the inspector, which it lacks.
hakmem_objects(alloc-tests-release-c 0 1 base/sync_point.c debug/inspect.c ${FAULTS})
hakmem_count(alloc-tests-release-c)
set(core hakmem_core)
if(HAKMEM_COVERAGE) # which does not count in libhakmem.a
  set(core alloc-tests-core)
  hakmem_objects(${core} 0 1 ${CORE})
  hakmem_count(${core})
endif()
set(RELEASE_OBJECTS $<TARGET_OBJECTS:${core}> $<TARGET_OBJECTS:alloc-tests-release-c>)

# Every program that the tests of this folder run.
add_custom_target(alloc-programs)

function(hakmem_c_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${hakmem_includes})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wundef -Wshadow -Wconversion -Werror -fno-builtin)
  target_link_libraries(${name} PRIVATE Threads::Threads)
  hakmem_link_counters(${name})
  add_dependencies(alloc-programs ${name})
endfunction()

# threads_program on hak_*, with the release objects and with the validating ones; the inspector is linked in.
# hakmem_add_threads_test(NAME PROGRAM [LEVEL])
function(hakmem_add_threads_test name program)
  set(arguments "")
  if("${ARGV2}" STREQUAL 3)
    set(arguments --sane-sizes)
  endif()
  if(CMAKE_CROSSCOMPILING_EMULATOR OR HAKMEM_SANITIZE) # ten times slower
    list(APPEND arguments 5000)
  endif()
  add_test(NAME program/${name} COMMAND ${program} ${arguments})
  set_tests_properties(program/${name} PROPERTIES LABELS unit TIMEOUT 600)
  if(ARGC GREATER 2)
    set_tests_properties(program/${name} PROPERTIES ENVIRONMENT HAKMEM_FAILFAST_LEVEL=${ARGV2})
  endif()
endfunction()
set(threads programs/threads_program.c)
hakmem_c_program(threads-hak ${threads} programs/calls_hak.c ${RELEASE_OBJECTS})
hakmem_c_program(threads-hak-validate ${threads} programs/calls_hak.c $<TARGET_OBJECTS:alloc-tests-c>)
hakmem_add_threads_test(threads-hak threads-hak)
foreach(level 1 2 3)
  hakmem_add_threads_test(threads-hak-validate.${level} threads-hak-validate ${level})
endforeach()

if(HAKMEM_SANITIZE MATCHES memory)
  include(msan_tests.cmake)
endif()

# --- malloc itself replaced by linking ----------------------------------------------------------------

if(HAKMEM_SANITIZE)
  include(sanitized.cmake)
  return() # the sanitizer has its own malloc
endif()

function(hakmem_add_override_test name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()

# The override is an object file, so that it replaces libc's malloc before any archive is searched.
function(hakmem_link_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE hakmem_static)
  add_dependencies(${name} hakmem_override_object)
  add_dependencies(alloc-programs ${name})
  set_target_properties(${name} PROPERTIES LINK_DEPENDS "${override};${override_cxx};${archive}")
  hakmem_add_override_test(link/${name} ${name})
endfunction()

hakmem_link_program(beside-program programs/beside_program.c)
hakmem_link_program(hooked-linked programs/hooked_program.c)
target_link_libraries(hooked-linked PRIVATE ${override}) # without it the program's malloc is libc's

# Links the release objects built at -O0, as the preset debug does: a call to something that only the validating build
# has must be gone even without an optimiser.
hakmem_objects(unoptimised-c 0 1 ${CORE})
target_compile_options(unoptimised-c PRIVATE -O0)
hakmem_c_program(threads-malloc-unoptimised ${threads} programs/calls_malloc.c entry/malloc.c
    $<TARGET_OBJECTS:unoptimised-c>)
hakmem_add_threads_test(threads-malloc-unoptimised threads-malloc-unoptimised)

# threads_program on malloc, with the objects that programs link and with the validating ones.
hakmem_c_program(threads-malloc ${threads} programs/calls_malloc.c)
target_link_libraries(threads-malloc PRIVATE ${override} hakmem_static)
add_dependencies(threads-malloc hakmem_override_object)
set_target_properties(threads-malloc PROPERTIES LINK_DEPENDS "${override};${archive}")
hakmem_c_program(threads-malloc-validate ${threads} programs/calls_malloc.c entry/malloc.c
    $<TARGET_OBJECTS:alloc-tests-c>)
hakmem_add_threads_test(threads-malloc threads-malloc)
foreach(level 1 2 3)
  hakmem_add_threads_test(threads-malloc-validate.${level} threads-malloc-validate ${level})
endforeach()

# Reports about a wrong program, without a dynamic linker and perhaps without glibc. (The report of a double free has no
# stacks: the program and the heap are one module here, and traces leave the heap's own module out.)
set(frames -fno-omit-frame-pointer -fno-optimize-sibling-calls)
hakmem_c_program(wrong-program programs/wrong_program.c programs/calls_malloc.c entry/malloc.c
    ${RELEASE_OBJECTS})
hakmem_c_program(wrong-program-validate programs/wrong_program.c programs/calls_malloc.c entry/malloc.c
    $<TARGET_OBJECTS:alloc-tests-c>)
target_compile_options(wrong-program PRIVATE ${frames})
target_compile_options(wrong-program-validate PRIVATE ${frames})
# hakmem_add_wrong_test(PROGRAM WHAT EXPECTED VARIABLE=VALUE): EXPECTED is a regular expression.
function(hakmem_add_wrong_test program what expected variable)
  # ctest counts a program that ended by a signal as failed, whatever it printed, so a shell runs it.
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
  add_test(NAME program/${program}.${what} COMMAND sh -c "${emulator} '$<TARGET_FILE:${program}>' ${what}; true")
  set_tests_properties(program/${program}.${what} PROPERTIES LABELS unit TIMEOUT 300 ENVIRONMENT ${variable}
      PASS_REGULAR_EXPRESSION "${expected}")
endfunction()
hakmem_add_wrong_test(wrong-program-validate double-free "double_free: double free.*offset 0 of 100 bytes"
    HAKMEM_FAILFAST_LEVEL=3)
hakmem_add_wrong_test(wrong-program use-after-free
    "guard: a read.* 0 bytes into a freed block of 100 bytes at .*allocated by thread [0-9]+, freed by thread"
    HAKMEM_GUARD_SAMPLE=100)
hakmem_add_wrong_test(wrong-program segv "crash: SIGSEGV at 0x8; report: ${CMAKE_CURRENT_BINARY_DIR}/hakmem-"
    HAKMEM_CRASH_DIR=${CMAKE_CURRENT_BINARY_DIR})

# A C program must link without the C++ runtime. The link is done inside the test, so that a failure says what is
# missing.
list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
foreach(kind "" -static)
  set(program ${CMAKE_CURRENT_BINARY_DIR}/static-c${kind})
  add_test(NAME link/static-c${kind} COMMAND sh -c
      "'${CMAKE_C_COMPILER}' ${kind} -O2 -I'${hakmem_includes}' -o '${program}' \
      '${CMAKE_CURRENT_SOURCE_DIR}/programs/plain_program.c' '${override}' '${archive}' -pthread && \
      ${emulator} '${program}'")
  set_tests_properties(link/static-c${kind} PROPERTIES LABELS unit TIMEOUT 300)
endforeach()

# In a tree for another processor no other lint looks at the libraries.
if(CMAKE_CROSSCOMPILING AND TARGET hakmem)
  set(libraries hakmem hakmem-validate)
  if(TARGET hakmem-nodeepbind)
    list(APPEND libraries hakmem-nodeepbind)
  endif()
  add_dependencies(alloc-programs ${libraries})
  list(TRANSFORM libraries REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  add_test(NAME link/glibc COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/ci/lint/release_surface --glibc ${libraries})
  set_tests_properties(link/glibc PROPERTIES LABELS unit TIMEOUT 300)
endif()

# The shared library without C++: with musl, say, whose loader is another, or under an emulator.
if(HAKMEM_C_ONLY OR CMAKE_CROSSCOMPILING_EMULATOR)
  set(preload "")
  set(operations "")
  if(CMAKE_CROSSCOMPILING_EMULATOR) # which must not be preloaded itself
    set(preload "${emulator} -E ")
    set(operations 5000)
  endif()
  foreach(library hakmem hakmem-validate)
    set(program ${CMAKE_CURRENT_BINARY_DIR}/loaded-c.${library})
    set(compile "'${CMAKE_C_COMPILER}' -O2 -fno-builtin -D_GNU_SOURCE -I'${hakmem_includes}' -I'${CMAKE_CURRENT_SOURCE_DIR}'")
    add_test(NAME loading.preload-c.${library} COMMAND sh -c
        "${compile} -o '${program}' '${CMAKE_CURRENT_SOURCE_DIR}/programs/plain_program.c' -pthread && \
        ${preload}LD_PRELOAD='$<TARGET_FILE:${library}>' '${program}'")
    add_test(NAME loading.linked-c.${library} COMMAND sh -c
        "${compile} -o '${program}.linked' '${CMAKE_CURRENT_SOURCE_DIR}/programs/threads_program.c' \
        '${CMAKE_CURRENT_SOURCE_DIR}/programs/calls_malloc.c' '$<TARGET_FILE:${library}>' -Wl,-rpath,'${CMAKE_BINARY_DIR}' -pthread && ${emulator} '${program}.linked' ${operations}")
    set_tests_properties(loading.preload-c.${library} loading.linked-c.${library} PROPERTIES LABELS unit TIMEOUT 300)
    add_dependencies(alloc-programs ${library})
  endforeach()
endif()
