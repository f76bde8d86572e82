# Crash records: what reads them.
set(RECORD_SOURCES
  record/record_json.cc
  record/record_read.cc
  record/record_text.cc
  record/symbols.cc)

# Their tests.
set(RECORD_TESTS
  record/record_read_test.cc)
