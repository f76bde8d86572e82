# The tests of ci/replay.

# crash.replay.BUG: the bug is named in one run; soak.replay: in 20 runs of each.
set(replay_test ${CMAKE_CURRENT_SOURCE_DIR}/replay_test)
file(GLOB bugs CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/heap_programs/*.c)
foreach(source IN LISTS bugs)
    get_filename_component(bug ${source} NAME_WE)
    add_executable(bug-${bug} ${source})
    target_compile_definitions(bug-${bug} PRIVATE _GNU_SOURCE)
    # No tail calls and no inlining: a call that becomes a jump leaves no frame of its function, and an inlined function
    # has no name.
    target_compile_options(bug-${bug} PRIVATE -O1 -g -Wall -Wextra -Wundef -Wshadow -Wconversion -Werror -fno-builtin
        -fno-optimize-sibling-calls)
    target_link_libraries(bug-${bug} PRIVATE Threads::Threads)
    set_target_properties(bug-${bug} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
    target_link_options(bug-${bug} PRIVATE -Wl,--build-id)
    set(command Python3::Interpreter ${replay_test} ${CMAKE_BINARY_DIR} $<TARGET_FILE:bug-${bug}> ${source})
    add_test(NAME crash.replay.${bug} COMMAND ${command})
    set_tests_properties(crash.replay.${bug} PROPERTIES LABELS crash SKIP_RETURN_CODE 77 TIMEOUT 900)
    add_test(NAME soak.replay.${bug} COMMAND ${command} --times 20)
    set_tests_properties(soak.replay.${bug} PROPERTIES LABELS soak SKIP_RETURN_CODE 77 TIMEOUT 3000)
endforeach()

# crash.program.PROGRAM: each of these programs crashes for a different reason; with one library. The head of the source
# says how it is compiled: see programs/program.h. soak.program.PROGRAM: three times with each library. crash.programs:
# checks only that each program crashes with a record.
set(programs_test ${CMAKE_CURRENT_SOURCE_DIR}/programs_test)
file(GLOB programs CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/programs/*/*.c
    ${CMAKE_CURRENT_SOURCE_DIR}/programs/*/*.cc)
foreach(source IN LISTS programs)
    get_filename_component(name ${source} NAME_WE)
    set(target program-${name})
    file(STRINGS ${source} options REGEX "^// build: ")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    string(REPLACE "// build: " "" options "${options}")
    separate_arguments(options UNIX_COMMAND "${options}")
    add_executable(${target} ${source})
    target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    target_compile_options(${target} PRIVATE -O1 -g -Wall -Wextra -Wundef -Wshadow -Wconversion -Werror -fno-builtin
        -fno-optimize-sibling-calls)
    target_link_libraries(${target} PRIVATE Threads::Threads)
    set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
    target_link_options(${target} PRIVATE -Wl,--build-id)
    if("stripped" IN_LIST options)
        # The test looks up addresses in the copy.
        list(REMOVE_ITEM options stripped)
        add_custom_command(TARGET ${target} POST_BUILD
            COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:${target}> $<TARGET_FILE:${target}>.symbols
            COMMAND ${CMAKE_STRIP} $<TARGET_FILE:${target}> VERBATIM)
    endif()
    target_link_options(${target} PRIVATE ${options})
    list(REMOVE_ITEM options -no-pie) # an option for the linker only
    target_compile_options(${target} PRIVATE ${options})
    list(APPEND program_targets ${target})
    set(command Python3::Interpreter ${programs_test} ${CMAKE_BINARY_DIR} ${name})
    add_test(NAME crash.program.${name} COMMAND ${command} --first)
    set_tests_properties(crash.program.${name} PROPERTIES LABELS crash SKIP_RETURN_CODE 77 TIMEOUT 600)
    add_test(NAME soak.program.${name} COMMAND ${command} --times 3)
    set_tests_properties(soak.program.${name} PROPERTIES LABELS soak SKIP_RETURN_CODE 77 TIMEOUT 1800)
endforeach()
add_test(NAME crash.programs COMMAND Python3::Interpreter ${programs_test} ${CMAKE_BINARY_DIR} --method none)
set_tests_properties(crash.programs PROPERTIES LABELS crash SKIP_RETURN_CODE 77 TIMEOUT 600)
add_custom_target(programs DEPENDS ${program_targets})

add_library(late-write MODULE ${CMAKE_CURRENT_SOURCE_DIR}/late_write.c)
target_compile_definitions(late-write PRIVATE _GNU_SOURCE)
target_compile_options(late-write PRIVATE -O1 -g -Wall -Wextra -Wundef -Wshadow -Wconversion -Werror -fno-builtin)
target_link_libraries(late-write PRIVATE ${CMAKE_DL_LIBS})
set_target_properties(late-write PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)

# The rest of the command: bad input, the other methods, rr's command lines, and rr itself if it can record.
set(driver Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/replay_driver_test ${CMAKE_BINARY_DIR})
add_test(NAME crash.replay-driver COMMAND ${driver})
add_test(NAME crash.replay-driver.input COMMAND ${driver} -k that_ -k options -k _rr -k where_rr)
add_test(NAME crash.replay-rr COMMAND ${driver} --rr)
set_tests_properties(crash.replay-driver crash.replay-driver.input crash.replay-rr PROPERTIES LABELS crash SKIP_RETURN_CODE 77 TIMEOUT 900
    COST 10)

# crash.replay-forms: which register is followed from a bad address.
add_test(NAME crash.replay-forms COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/forms_test)
set_tests_properties(crash.replay-forms PROPERTIES LABELS crash SKIP_RETURN_CODE 77 TIMEOUT 600)

# crash.matrix: programs of both folders, compiled in many ways: some each day, in turn. soak.matrix.LEVEL: each way.
set(matrix Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/matrix_test ${CMAKE_BINARY_DIR})
# crash.matrix.walk: without optimisation a walk that left the live blocks ends in a local variable, which was read, not written.
add_test(NAME crash.matrix COMMAND ${matrix} --cells 6)
add_test(NAME crash.matrix.walk COMMAND ${matrix} early_free other_path overrun_unmapped --levels O0
    --compilers gcc --each --seed 0)
# crash.matrix.sum: there a pointer and an index are added before they are used.
add_test(NAME crash.matrix.sum COMMAND ${matrix} sparse_table wild_index --levels O0 --compilers gcc --each --seed 0)
# crash.matrix.returned: there a result is in a local variable, too.
add_test(NAME crash.matrix.returned COMMAND ${matrix} null_global --levels O0 --compilers clang --each --seed 0)
set_tests_properties(crash.matrix crash.matrix.walk crash.matrix.sum crash.matrix.returned PROPERTIES LABELS crash SKIP_RETURN_CODE 77 TIMEOUT 600)
foreach(level O0 Og O1 O2 O3)
    add_test(NAME soak.matrix.${level} COMMAND ${matrix} --levels ${level})
    set_tests_properties(soak.matrix.${level} PROPERTIES LABELS soak SKIP_RETURN_CODE 77 TIMEOUT 20000)
endforeach()
