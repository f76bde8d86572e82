// A temporary directory of one test, removed with everything in it; and programs written as shell scripts.
#pragma once

#include <string>

namespace stress {

class Temporary {
  public:
    Temporary();
    Temporary(const Temporary &) = delete;
    Temporary &operator=(const Temporary &) = delete;
    ~Temporary();

    std::string path(const std::string &name) const { return path_ + "/" + name; }

    // Writes a fake hakmem-stress and returns its path. The script finds the --json file in $json, the seed in $seed,
    // the scenario in $1, and a passing result in $pass.
    std::string script(const std::string &name, const std::string &body) const;

  private:
    std::string path_;
};

std::string text_of_file(const std::string &path);
void write_file(const std::string &path, const std::string &text);

} // namespace stress
