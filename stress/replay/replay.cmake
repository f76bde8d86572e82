# Crash records: what reads them.
set(REPLAY_SOURCES
  replay/record_json.cc
  replay/record_read.cc
  replay/record_text.cc
  replay/symbols.cc)

# Their tests.
set(REPLAY_TESTS
  replay/record_read_test.cc)
