# The commands that work on sequences of ops.
set(COMMAND_SOURCES
  command/all.cc
  command/arguments.cc
  command/capture.cc
  command/command.cc
  command/compare.cc
  command/conform.cc
  command/inject.cc
  command/keep.cc
  command/record.cc
  command/report.cc
  command/run_file.cc
  command/setup.cc
  command/show.cc
  command/shrink.cc
  command/shrink_keep.cc
  command/try.cc)
