# Runs the training programs with the instrumented library preloaded, and merges their counts into PROFILE.
#   cmake -DLIBRARY=SO -DSTRESS=PROGRAM -DBENCH=[PROGRAM] -DPROFDATA=PROGRAM -DPROFILE=FILE -P train.cmake
# Seeds and numbers of calls are fixed and one thread runs at a time, so that two trainings give nearly the same counts:
# only the work that the allocator does by the clock differs. The scenarios call every function on which a program's
# speed may depend, since the compiler treats one that was never called as cold. Fails if a run fails or leaves no
# counts; an earlier PROFILE then stays.

get_filename_component(folder ${PROFILE} DIRECTORY)
set(raw ${folder}/raw)

# LD_PRELOAD cannot name a path with a space, so the programs run in the library's folder.
get_filename_component(library_folder ${LIBRARY} DIRECTORY)
get_filename_component(library_name ${LIBRARY} NAME)

# train(NAME COMMAND...): one run, with its counts in raw/NAME-*.
function(train name)
  execute_process(
    WORKING_DIRECTORY ${library_folder}
    COMMAND ${CMAKE_COMMAND} -E env LLVM_PROFILE_FILE=${raw}/${name}-%p-%m.profraw ${ARGN}
    OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE status TIMEOUT 900)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "training: ${name} ended with ${status}:\n${text}")
  endif()
  file(GLOB counts ${raw}/${name}-*.profraw)
  if(NOT counts)
    message(FATAL_ERROR "training: ${name} left no counts in ${raw}: was ${LIBRARY} preloaded, and instrumented?")
  endif()
endfunction()

file(REMOVE_RECURSE ${raw})
file(MAKE_DIRECTORY ${raw})
foreach(entry IN ITEMS random-mixed:500000 larson:500000 remote-free:500000 mid:500000 large:500000 patterns:500000
    realloc-walk:100000 aligned:100000 calloc:100000 huge:20000)
  string(REPLACE ":" ";" entry ${entry})
  list(GET entry 0 scenario)
  list(GET entry 1 ops)
  train(${scenario} ${STRESS} ${scenario} --allocator ${LIBRARY} --no-check --schedule seeded --threads 2 --seed 7
    --ops ${ops})
endforeach()
if(BENCH)
  foreach(row IN ITEMS mixed-1024 mid-1-8k tight-64 larson)
    train(bench-${row} ${CMAKE_COMMAND} -E env LD_PRELOAD=./${library_name} ${BENCH} run ${row} --seed 7 --ops 2000000)
  endforeach()
endif()

file(GLOB counts ${raw}/*.profraw)
execute_process(COMMAND ${PROFDATA} merge -o ${PROFILE}.new ${counts} ERROR_VARIABLE text RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "training: ${PROFDATA} ended with ${status}:\n${text}")
endif()
file(RENAME ${PROFILE}.new ${PROFILE})
