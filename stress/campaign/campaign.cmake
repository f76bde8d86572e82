# The driver of campaigns and the report.
set(CAMPAIGN_SOURCES
  campaign/campaign.cc
  campaign/child.cc
  campaign/command.cc
  campaign/figures.cc
  campaign/html.cc
  campaign/interrupt.cc
  campaign/journal.cc
  campaign/judge.cc
  campaign/page.cc
  campaign/page_figures.cc
  campaign/page_text.cc
  campaign/record.cc
  campaign/report.cc
  campaign/soak_state.cc
  campaign/style.cc
  campaign/summary.cc
  campaign/svg.cc
  campaign/words.cc)

# Their tests: those that start processes, and the others.
set(CAMPAIGN_TESTS
  campaign/campaign_test.cc
  campaign/child_test.cc
  campaign/command_test.cc
  campaign/runs_for_test.cc
  campaign/temporary_for_test.cc)
set(CAMPAIGN_TESTS_OF_ONE_THREAD
  campaign/html_test.cc
  campaign/page_test.cc
  campaign/record_test.cc
  campaign/report_test.cc
  campaign/soak_state_test.cc
  campaign/svg_test.cc
  campaign/words_test.cc)
