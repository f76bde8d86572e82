# The driver of campaigns and the report.
set(CAMPAIGN_SOURCES
  campaign/campaign.cc
  campaign/child.cc
  campaign/command.cc
  campaign/page/figures.cc
  campaign/page/html.cc
  campaign/interrupt.cc
  campaign/journal.cc
  campaign/judge.cc
  campaign/page/page.cc
  campaign/page/page_figures.cc
  campaign/page/page_text.cc
  campaign/record.cc
  campaign/report.cc
  campaign/soak_state.cc
  campaign/page/style.cc
  campaign/summary.cc
  campaign/page/svg.cc
  campaign/words.cc)

# Their tests: those that start processes, and the others.
set(CAMPAIGN_TESTS
  campaign/campaign_test.cc
  campaign/child_test.cc
  campaign/command_test.cc
  campaign/runs_for_test.cc
  campaign/temporary_for_test.cc)
set(CAMPAIGN_TESTS_OF_ONE_THREAD
  campaign/page/html_test.cc
  campaign/page/page_test.cc
  campaign/record_test.cc
  campaign/report_test.cc
  campaign/soak_state_test.cc
  campaign/page/svg_test.cc
  campaign/words_test.cc)
