# Tests that the sanitizers see the use of blocks: a program that uses them wrongly or correctly
# (programs/sanitized_program.c), with the release and the validating objects. Only in trees with a sanitizer; each has
# its own cases.

function(hakmem_sanitized_program name)
  add_executable(${name} programs/sanitized_program.c ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/include)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  # -O1 and no builtins, so that the compiler keeps each wrong access as it is written.
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wundef -Wshadow -Wconversion -Werror -O1 -fno-builtin
                         -fno-omit-frame-pointer -fno-optimize-sibling-calls)
  target_link_libraries(${name} PRIVATE Threads::Threads)
  add_dependencies(alloc-programs ${name})
endfunction()

hakmem_sanitized_program(sanitized-program)
target_link_libraries(sanitized-program PRIVATE hakmem_static)
hakmem_sanitized_program(sanitized-program-validate $<TARGET_OBJECTS:alloc-tests-c>)

# hakmem_sanitized_test(LABEL CASE ARGUMENT...): with both sets of objects, at any level. hakmem_framed_test: with
# frames.
function(hakmem_sanitized_add label name)
  add_test(NAME ${label}/${name} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/programs/sanitized_check
           ${ARGN})
  set_tests_properties(${label}/${name} PROPERTIES LABELS unit TIMEOUT 900 SKIP_RETURN_CODE 77)
  if(label STREQUAL tsan)
    set_tests_properties(${label}/${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
function(hakmem_sanitized_test label case)
  hakmem_sanitized_add(${label} ${case} ${ARGN} $<TARGET_FILE:sanitized-program> ${case})
endfunction()
function(hakmem_framed_test label case)
  hakmem_sanitized_add(${label} ${case}.frames --level 2 ${ARGN}
                       $<TARGET_FILE:sanitized-program-validate> ${case})
endfunction()

if(HAKMEM_SANITIZE MATCHES address)
  set(poison --finds "AddressSanitizer: use-after-poison")
  foreach(row small_behind:100 run_behind:100000 huge_behind:3145828 calloc_behind:100 aligned_behind:100
          shrunk_behind:80 grown_behind:300000 run_shrunk_behind:50000)
    string(REPLACE ":" ";" row ${row})
    list(GET row 0 case)
    list(GET row 1 size)
    set(says --says "is 0 bytes behind a block of ${size} bytes at {block}, which is in use")
    hakmem_sanitized_test(asan ${case} ${poison} ${says})
    hakmem_framed_test(asan ${case} ${poison} ${says} --threads)
  endforeach()
  # Without a frame, the bytes before a block are the end of another one. Before a slab's first block there is none, and
  # nothing is found.
  hakmem_framed_test(asan before ${poison} --says "is 1 byte before a block of 100 bytes at {block}, which is in use"
                     --threads)
  hakmem_sanitized_test(asan small_freed ${poison} --says "is 50 bytes into a block at {block}, which is free")
  hakmem_sanitized_test(asan run_freed ${poison})
  hakmem_sanitized_test(asan huge_freed ${poison})
  hakmem_framed_test(asan small_freed ${poison} --threads
                     --says "is 50 bytes into a block of 100 bytes at {block}, which is free")
  hakmem_framed_test(asan run_freed ${poison})
  hakmem_framed_test(asan huge_freed ${poison})
  hakmem_framed_test(asan twice --finds "hakmem: failfast: double_free: " --says "address {block}" --threads)
  foreach(case right remapped hold)
    hakmem_sanitized_test(asan ${case})
    hakmem_framed_test(asan ${case})
  endforeach()
  set(leak --finds "LeakSanitizer: detected memory leaks" --says "in 3 allocation(s)")
  hakmem_sanitized_test(asan lose ${leak})
  hakmem_framed_test(asan lose ${leak})
elseif(HAKMEM_SANITIZE STREQUAL thread)
  foreach(case race_with_free race_with_reuse)
    hakmem_sanitized_test(tsan ${case} --finds "ThreadSanitizer: data race")
  endforeach()
  foreach(case no_race hand_over)
    hakmem_sanitized_test(tsan ${case})
    hakmem_framed_test(tsan ${case})
  endforeach()
elseif(HAKMEM_SANITIZE MATCHES memory)
  set(uninitialised --finds "MemorySanitizer: use-of-uninitialized-value" --says "in branch_on")
  foreach(case read_small read_run read_huge read_moved read_moved_end read_grown read_huge_grown)
    hakmem_sanitized_test(msan ${case} ${uninitialised})
    hakmem_framed_test(msan ${case} ${uninitialised})
  endforeach()
  foreach(case read_written right)
    hakmem_sanitized_test(msan ${case})
    hakmem_framed_test(msan ${case})
  endforeach()
endif()
