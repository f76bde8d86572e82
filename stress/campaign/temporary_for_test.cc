#include "campaign/temporary_for_test.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace stress {

Temporary::Temporary()
{
    std::string pattern = std::filesystem::temp_directory_path() / "hakmem-campaign-XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

Temporary::~Temporary()
{
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string Temporary::script(const std::string &name, const std::string &body) const
{
    const std::string file = path(name);
    write_file(file, R"(#!/bin/sh
scenario=$1
previous=
for word; do
    case $previous in --json) json=$word ;; --seed) seed=$word ;; --allocator) allocator=$word ;; esac
    previous=$word
done
pass="{\"scenario\": \"$scenario\", \"seed\": $seed, \"ops\": 1000, \"seconds\": 0.5, \"ops_per_second\": 2000,
\"peak_rss_bytes\": 1048576, \"verdict\": \"pass\", \"failures\": [], \"samples\": [[0, 1, 2, 3], [0.5, 4, 5, 6]]}"
)" + body);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
}

std::string text_of_file(const std::string &path)
{
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

void write_file(const std::string &path, const std::string &text)
{
    std::ofstream(path) << text;
}

}  // namespace stress
