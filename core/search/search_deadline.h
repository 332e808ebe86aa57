// CPU limit of one search. Xapian's own time limit is not checked during phrase matching.
#pragma once

#include <xapian.h>

#include <chrono>
#include <exception>
#include <memory>

namespace freshet::search {

class SearchTimeout : public std::exception {
 public:
  const char* what() const noexcept override { return "the search exceeded its CPU limit"; }
};

// CPU time of this thread since its start. Costs 0.3 µs.
std::chrono::microseconds thread_cpu_time();

class SearchDeadline {
 public:
  // `limit`: CPU time of this thread from now on; 0: unlimited.
  explicit SearchDeadline(std::chrono::microseconds limit);
  // Throws SearchTimeout.
  void check() const;
  // Returns `query` with every candidate passing a deadline check before the phrase check (a
  // MatchDecider only sees documents that passed it). Adds no weight. Local databases only; this
  // must outlive the search.
  Xapian::Query guard(const Xapian::Query& query) const;

 private:
  std::chrono::microseconds end_;
};

}  // namespace freshet::search
