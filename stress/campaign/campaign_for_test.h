// For tests: a whole campaign over a fake program, in its own process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "campaign/campaign.h"
#include "campaign/soak_state.h"
#include "campaign/temporary_for_test.h"
#include "engine/base/file.h"

namespace stress {

struct Ended {
    int code = -1;  // -1: by a signal
    std::string out, err;
};

class Campaigns : public testing::Test {
  protected:
    Campaigns()
    {
        options_.scenarios = {"larson", "random-mixed"};
        options_.allocators = {"hakmem", "system"};
        options_.schedules = {"os"};
        options_.seed = 100;
        options_.timeout_seconds = 20;
        options_.report_directory = temporary_.path("report");
        options_.command = "hakmem-stress all --report report";
        options_.program_name = "hakmem-stress";
    }

    void program(const std::string &body) { options_.program = temporary_.script("program", body); }

    // This process has one thread, so it may fork.
    pid_t start()
    {
        const pid_t child = fork();
        if (child != 0) return child;
        for (const auto &[fd, name] : {std::pair{1, "out"}, std::pair{2, "err"}})
            dup2(open(temporary_.path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), fd);
        _exit(campaign_run(options_));
    }
    Ended end(pid_t child)
    {
        int status = 0;
        waitpid(child, &status, 0);
        return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of_file(temporary_.path("out")),
                text_of_file(temporary_.path("err"))};
    }
    Ended run() { return end(start()); }

    std::string page() const { return text_of_file(options_.report_directory + "/index.html"); }
    SoakState state() const
    {
        SoakState state;
        EXPECT_EQ(soak_state_read(text_of_file(options_.report_directory + "/soak.json"), state), "");
        return state;
    }
    std::size_t result_files() const { return directory_names(options_.report_directory + "/results").size(); }
    void wait_for_runs(std::uint64_t runs) const
    {
        for (int i = 0; i < 1000; ++i) {
            std::string text;
            SoakState now;
            if (file_read(options_.report_directory + "/soak.json", text).empty() &&
                soak_state_read(text, now).empty() && now.next_run >= runs)
                return;
            usleep(10000);
        }
        FAIL() << "the soak did not come to run " << runs;
    }

    Temporary temporary_;
    CampaignOptions options_;
};

}  // namespace stress
