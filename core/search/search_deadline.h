// How long one search may compute: Xapian has no such bound that holds while it looks for phrases.
#pragma once

#include <xapian.h>

#include <chrono>
#include <exception>
#include <memory>

namespace freshet::search {

class SearchTimeout : public std::exception {
 public:
  const char* what() const noexcept override { return "a search computed for too long"; }
};

// Of this thread since it was started. 0.3 µs.
std::chrono::microseconds thread_cpu_time();

class SearchDeadline {
 public:
  // `limit` of this thread's CPU time from now on; 0: none.
  explicit SearchDeadline(std::chrono::microseconds limit);
  // Throws SearchTimeUp.
  void check() const;
  // `query` with every candidate's way to the phrase check leading past this deadline (a
  // MatchDecider sees only what passed that check). Adds no weight. Local databases only; this must
  // outlive the search.
  Xapian::Query guard(const Xapian::Query& query) const;

 private:
  std::chrono::microseconds end_;
};

}  // namespace freshet::search
