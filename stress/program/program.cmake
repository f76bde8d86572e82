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
# Frames of traces are compressed by libzstd, linked statically so that it takes no memory from the malloc under test. A
# tree for another machine or another libc has none.
find_library(STRESS_ZSTD libzstd.a)
find_path(STRESS_ZSTD_INCLUDE zstd.h)
if(STRESS_ZSTD AND STRESS_ZSTD_INCLUDE AND NOT CMAKE_CROSSCOMPILING)
  list(APPEND PROGRAM_SOURCES program/compress_zstd.cc)
else()
  message(STATUS "no libzstd: hakmem-stress is built without traces")
  list(APPEND PROGRAM_SOURCES program/compress_none.cc)
  set(STRESS_ZSTD "")
endif()
