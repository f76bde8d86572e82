/* freed_then_thrown.cc: a reader frees its buffer before it throws; its destructor frees it again. In between the
 * text of the exception had the block. */
// expect: library=release cause=double_free,use_after_free grade=likely
#include "../program.h"
#include <stdexcept>

struct Reader {
    explicit Reader(std::size_t bytes);
    ~Reader();
    void parse(bool is_broken);
    char *buffer;
};

PLAINLY Reader::Reader(std::size_t bytes)
{
    buffer = static_cast<char *>(need(std::malloc(bytes)));
}

PLAINLY Reader::~Reader()
{
    std::free(buffer);
}

PLAINLY void Reader::parse(bool is_broken)
{
    if (is_broken) {
        std::free(buffer); /* guilty */
        throw std::runtime_error("no magic");
    }
    buffer[0] = '\0';
}

struct Entry {
    Entry *before;
    char *title;
    long places[3];
};

PLAINLY static int read_file(bool is_broken)
{
    try {
        Reader reader(33);
        reader.parse(is_broken);
        return 1;
    } catch (const std::exception &) {
        return 0;
    }
}

PLAINLY static Entry *entry_make(Entry *before)
{
    Entry *entry = static_cast<Entry *>(need(std::malloc(sizeof *entry)));
    entry->before = before;
    entry->title = copy_text("the title of an entry, long enough");
    return entry;
}

int main()
{
    Entry *last = nullptr;
    std::size_t read = 0;
    for (int i = 0; i < 30; i++) {
        read += static_cast<std::size_t>(read_file(i == 5));
        last = entry_make(last);
    }
    for (; last != nullptr; last = last->before) read += strlen(last->title);
    return read > 0 ? 4 : 5;
}
