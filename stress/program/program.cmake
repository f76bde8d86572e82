# Sequences of ops as files, and what can be done with them.
set(PROGRAM_SOURCES
  program/fold.cc
  program/minimise.cc
  program/op_parse.cc
  program/op_print.cc
  program/program.cc
  program/program_file.cc
  program/run_log.cc
  program/trace_feed.cc
  program/trace_file.cc)
if(STRESS_ZSTD) # see ci/dependencies.cmake
  list(APPEND PROGRAM_SOURCES program/compress_zstd.cc)
else()
  list(APPEND PROGRAM_SOURCES program/compress_none.cc)
endif()
