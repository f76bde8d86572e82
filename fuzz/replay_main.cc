// usage: TARGET-replay FILE|FOLDER...
//
// A fuzz target without its fuzzer: runs each file, and each file of each folder (not of its subfolders), once. It does
// not need clang, so the corpus can test every build. A child runs the files. If it fails, its current file is printed,
// and a new child continues with the next file. The last line is "N files, K finds". Exit status: 0 no find; 1 some
// finds; 2 a file that cannot be read, a folder without files, or no argument.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

namespace {

namespace fs = std::filesystem;
constexpr int kBadInput = 2;

[[noreturn]] void refuse(const std::string &text)
{
    std::fprintf(stderr, "%s\n", text.c_str());
    std::exit(kBadInput);
}

std::vector<std::uint8_t> content_of(const std::string &path)
{
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) refuse("'" + path + "' cannot be read: " + std::strerror(errno));
    std::vector<std::uint8_t> bytes;
    std::uint8_t part[65536];
    for (std::size_t count; (count = std::fread(part, 1, sizeof part, file)) > 0;)
        bytes.insert(bytes.end(), part, part + count);
    const bool failed = std::ferror(file) != 0;
    std::fclose(file);
    if (failed) refuse("'" + path + "' cannot be read: " + std::strerror(errno));
    return bytes;
}

// The named files, and the files of named folders, ordered by name.
std::vector<std::string> files_of(int count, char **names)
{
    std::vector<std::string> files;
    for (int i = 0; i < count; ++i) {
        std::error_code error;
        if (!fs::is_directory(names[i], error)) {
            files.emplace_back(names[i]);
            continue;
        }
        std::vector<std::string> inside;
        for (const fs::directory_entry &entry : fs::directory_iterator(names[i], error))
            if (entry.is_regular_file(error)) inside.push_back(entry.path().string());
        if (inside.empty()) refuse(std::string("the folder '") + names[i] + "' has no files: name one with inputs");
        std::sort(inside.begin(), inside.end());
        files.insert(files.end(), inside.begin(), inside.end());
    }
    return files;
}

std::string ending_of(int status)
{
    if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
    return "exit status " + std::to_string(WEXITSTATUS(status));
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 2 || std::string_view(argv[1]).starts_with("-"))
        refuse(std::string("usage: ") + argv[0] + " FILE|FOLDER...: name the inputs to run");
    const std::vector<std::string> files = files_of(argc - 1, argv + 1);
    std::vector<std::vector<std::uint8_t>> inputs;
    for (const std::string &file : files) inputs.push_back(content_of(file));
    constexpr std::size_t count_bytes = sizeof(std::atomic<std::size_t>);
    void *shared = mmap(nullptr, count_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) refuse(std::string("no memory to share: ") + std::strerror(errno));
    auto &next = *new (shared) std::atomic<std::size_t>(0);
    std::size_t finds = 0;
    while (next.load() < files.size()) {
        const std::size_t first = next.load();
        std::fflush(nullptr);
        const pid_t child = fork();
        if (child < 0) refuse(std::string("no child can be started: ") + std::strerror(errno));
        if (child == 0) {
            if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
            for (; next.load() < files.size(); next.fetch_add(1))
                LLVMFuzzerTestOneInput(inputs[next.load()].data(), inputs[next.load()].size());
            _exit(0);
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        if (status == 0 && next.load() == files.size()) break;
        ++finds;
        const std::size_t at = std::max(first, std::min(next.load(), files.size() - 1));
        std::fprintf(stderr, "find: '%s': %s\n", files[at].c_str(), ending_of(status).c_str());
        next.store(at + 1);
    }
    std::printf("%zu files, %zu finds\n", files.size(), finds);
    return finds == 0 ? 0 : 1;
}
