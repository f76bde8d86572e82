# The command `inject`.
set(INJECT_SOURCES
  inject/calls.cc
  inject/child.cc
  inject/command.cc
  inject/loss.cc
  inject/signals.cc
  inject/space.cc
  inject/totals.cc)
