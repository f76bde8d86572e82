// A directory of a test's own, removed with all that is in it; and programs written as shell scripts.
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

    // A fake hakmem-stress. The script finds the file of --json in $json, the seed in $seed, the scenario in $1, and
    // a passing result in $pass. Returns its path.
    std::string script(const std::string &name, const std::string &body) const;

  private:
    std::string path_;
};

std::string text_of_file(const std::string &path);
void write_file(const std::string &path, const std::string &text);

} // namespace stress
