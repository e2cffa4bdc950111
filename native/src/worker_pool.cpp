#include "webscale/worker_pool.hpp"

#include <algorithm>
#include <system_error>

#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

namespace webscale {

namespace {

constexpr std::size_t max_width = 4;  // copying saturates memory with few threads
constexpr int patience = 500;         // looks at the last part before sleeping, which costs more than most parts take

std::mutex shared_mutex;
WorkerPool* shared_pool = nullptr;  // never destroyed: threads may still copy while the process ends

/// Leaves the core's resources to its other thread for a moment.
void relax_processor() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

WorkerPool& WorkerPool::shared() {
#if defined(__unix__) || defined(__APPLE__)
    // In a child the threads are gone and the locks in an unknown state, so both are left behind and made anew.
    static const int registered = pthread_atfork(
        [] { shared_mutex.lock(); }, [] { shared_mutex.unlock(); },
        [] {
            shared_pool = nullptr;
            shared_mutex.unlock();
        });
    (void)registered;
#endif
    const std::lock_guard lock(shared_mutex);
    if (shared_pool == nullptr) {
        const std::size_t cores = std::max<std::size_t>(std::thread::hardware_concurrency(), 1);
        shared_pool = new WorkerPool(std::min(cores, max_width) - 1);
    }
    return *shared_pool;
}

WorkerPool::WorkerPool(std::size_t helpers) {
    threads_.reserve(helpers);
    try {
        for (std::size_t i = 0; i < helpers; ++i) {
            threads_.emplace_back([this] { help(); });
        }
    } catch (const std::system_error&) {
        // The system gives no more threads: those that started do the work.
    }
}

WorkerPool::~WorkerPool() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    started_.notify_all();
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void WorkerPool::run(std::size_t parts, const std::function<void(std::size_t)>& task) {
    const std::unique_lock caller(caller_, std::try_to_lock);
    if (!caller.owns_lock() || parts < 2 || threads_.empty()) {
        for (std::size_t part = 0; part < parts; ++part) {
            task(part);
        }
        return;
    }
    std::unique_lock lock(mutex_);
    task_ = &task;
    next_part_ = 0;
    parts_ = parts;
    unfinished_ = parts;
    started_.notify_all();
    work_off(lock);
    lock.unlock();
    for (int look = 0; look < patience && unfinished_.load(std::memory_order_acquire) > 0; ++look) {
        relax_processor();
    }
    lock.lock();
    finished_.wait(lock, [this] { return unfinished_ == 0; });
    task_ = nullptr;
}

void WorkerPool::help() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        started_.wait(lock, [this] { return stopping_ || (task_ != nullptr && next_part_ < parts_); });
        work_off(lock);
    }
}

void WorkerPool::work_off(std::unique_lock<std::mutex>& lock) {
    while (task_ != nullptr && next_part_ < parts_) {
        const std::size_t part = next_part_++;
        const auto* task = task_;
        lock.unlock();
        (*task)(part);
        lock.lock();
        if (--unfinished_ == 0) {
            finished_.notify_all();
        }
    }
}

}  // namespace webscale
