#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace webscale {

/// Threads that split large copies. Work is divided by position alone, so results do not depend on their timing.
/// Thread-safe; a caller that finds the threads busy does all the work itself.
class WorkerPool {
public:
    /// `helpers` threads besides the calling one.
    explicit WorkerPool(std::size_t helpers);
    ~WorkerPool();
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    /// The process's pool, started at first use; a forked child starts its own, since threads do not survive a fork.
    static WorkerPool& shared();

    /// Threads that can work at once, the calling one included.
    std::size_t width() const noexcept { return threads_.size() + 1; }

    /// Calls task(0) to task(parts - 1), each once, and returns when all have returned. The caller takes parts too, one
    /// after another, so many small ones cost little when a helper is slow to wake. The task must not throw.
    void run(std::size_t parts, const std::function<void(std::size_t)>& task);

private:
    void help();
    void work_off(std::unique_lock<std::mutex>& lock);

    std::mutex caller_;  // held by the caller whose task is being run
    std::mutex mutex_;   // guards all below
    std::condition_variable started_;
    std::condition_variable finished_;
    const std::function<void(std::size_t)>* task_ = nullptr;
    std::size_t next_part_ = 0;
    std::size_t parts_ = 0;
    std::atomic<std::size_t> unfinished_ = 0;  // changed under mutex_, but also awaited without it
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace webscale
