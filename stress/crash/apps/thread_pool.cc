/* thread_pool.cc: four workers take tasks from a queue. A task holds a plain pointer to its job's result. A job that is
 * cancelled deletes the result while one of its tasks is still queued. The block's next owner, in another thread, keeps
 * a pointer in it, which the task then overwrites with its number. */
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#define PLAINLY __attribute__((noinline))

struct Result {
    uint64_t number = 0;
    char room[56] = {};
};

struct Note {
    std::string *text = nullptr;
    char room[56] = {};
};

class Pool {
  public:
    explicit Pool(size_t count)
    {
        for (size_t i = 0; i < count; i++) workers_.emplace_back([this] { work(); });
    }
    ~Pool()
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            is_over_ = true;
        }
        changed_.notify_all();
        for (std::thread &worker : workers_) worker.join();
    }
    void add(std::function<void()> task)
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            tasks_.push_back(std::move(task));
            left_++;
        }
        changed_.notify_all();
    }
    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return left_ == 0; });
    }

  private:
    void work()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return is_over_ || !tasks_.empty(); });
            if (tasks_.empty()) return;
            std::function<void()> task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
            lock.lock();
            left_--;
            changed_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> tasks_;
    std::vector<std::thread> workers_;
    size_t left_ = 0;
    bool is_over_ = false;
};

PLAINLY static void set_result(Result *result, uint64_t number)
{
    result->number = number; /* also guilty */
}

PLAINLY static void cancel(std::unique_ptr<Result> &result)
{
    result.reset(); /* guilty */
}

PLAINLY static Note *make_note(std::string *text)
{
    Note *note = new Note;
    note->text = text;
    return note;
}

PLAINLY static size_t letters(const std::vector<Note *> &notes)
{
    size_t sum = 0;
    for (const Note *note : notes) sum += note->text->size();
    return sum;
}

int main()
{
    std::string text = "a note";
    std::vector<Note *> notes;
    Pool pool(4);
    std::unique_ptr<Result> first = std::make_unique<Result>(), second = std::make_unique<Result>();
    Result *of_first = first.get(), *of_second = second.get();
    pool.add([of_first] { set_result(of_first, 1); });
    pool.wait();
    cancel(second); /* its task is still to come */
    /* Moves blocks through the quarantine, if there is one. */
    for (int i = 0; i < 2000; i++) notes.push_back(make_note(&text));
    pool.add([of_second] { set_result(of_second, 0x2222222222222222); });
    pool.wait();
    return letters(notes) == 0 ? 3 : 4;
}
