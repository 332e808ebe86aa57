#include "core/async/blocking_pool.h"

#include <csignal>

namespace freshet {

BlockingPool::BlockingPool(EventLoop& loop, std::size_t threads, std::size_t max_waiting,
                           std::string_view busy)
    : loop_(loop), max_waiting_(max_waiting), busy_(busy) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  threads_.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { work_off(i); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool BlockingPool::submit(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= max_waiting_) return false;
    jobs_.push_back(std::move(job));
  }
  arrived_.notify_one();
  return true;
}

void BlockingPool::work_off(std::size_t thread) {
  for (;;) {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    if (Clock::now() < job->expires) job->run(thread);
    hand_back(std::move(job));
  }
}

void BlockingPool::hand_back(std::shared_ptr<Job> job) {
  loop_.post([job = std::move(job)] { job->finish(); });
}

void BlockingPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  for (std::thread& each : threads_) {
    if (each.joinable()) each.join();
  }
  for (auto& job : jobs_) hand_back(std::move(job));
  jobs_.clear();
}

}  // namespace freshet
