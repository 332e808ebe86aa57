#include "core/async/blocking_pool.h"

#include <csignal>
#include <thread>

namespace freshet {

BlockingPool::BlockingPool(EventLoop& loop, std::size_t threads, std::size_t max_queued,
                           std::string_view busy_reason)
    : loop_(loop), max_queued_(max_queued), busy_reason_(busy_reason) {
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run_jobs(i); });
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
}

bool BlockingPool::submit(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= max_queued_) return false;
    jobs_.push_back(std::move(job));
  }
  job_available_.notify_one();
  return true;
}

void BlockingPool::run_jobs(std::size_t thread) {
  for (;;) {
    std::unique_lock lock(mutex_);
    job_available_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (Clock::now() < job->deadline) job->run(thread);
    post_result(std::move(job));
  }
}

void BlockingPool::post_result(std::shared_ptr<Job> job) {
  loop_.post([job = std::move(job)] { job->finish(); });
}

void BlockingPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  job_available_.notify_all();
  for (std::thread& each : threads_) {
    if (each.joinable()) each.join();
  }
  for (auto& job : jobs_) post_result(std::move(job));
  jobs_.clear();
}

}  // namespace freshet
