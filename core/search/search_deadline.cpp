#include "core/search/search_deadline.h"

#include <algorithm>
#include <ctime>
#include <string>

namespace freshet::search {
namespace {

constexpr unsigned kStepsPerCheck = 64;

// Matches every document and checks the deadline now and then. Xapian intersects the rarest term
// first, so this source is consulted last, for documents that match all other terms; phrases are
// checked after the intersection.
class DeadlineSource final : public Xapian::PostingSource {
 public:
  explicit DeadlineSource(const SearchDeadline& deadline) : deadline_(deadline) {}

  void init(const Xapian::Database& database) override {
    documents_ = database.get_doccount();
    last_ = database.get_lastdocid();
    at_ = 0;
  }
  Xapian::doccount get_termfreq_min() const override { return documents_; }
  Xapian::doccount get_termfreq_est() const override { return documents_; }
  Xapian::doccount get_termfreq_max() const override { return documents_; }
  void next(double) override { move_to(at_ + 1); }
  void skip_to(Xapian::docid to, double) override { move_to(std::max(at_, to)); }
  bool check(Xapian::docid to, double) override {
    move_to(std::max(at_, to));
    return true;
  }
  bool at_end() const override { return at_ > last_; }
  Xapian::docid get_docid() const override { return at_; }
  PostingSource* clone() const override { return new DeadlineSource(deadline_); }
  std::string get_description() const override { return "ClockSource"; }

 private:
  void move_to(Xapian::docid to) {
    at_ = to;
    if (++steps_ % kStepsPerCheck == 0) deadline_.check();
  }

  const SearchDeadline& deadline_;
  Xapian::doccount documents_ = 0;
  Xapian::docid last_ = 0, at_ = 0;
  unsigned steps_ = 0;
};

}  // namespace

std::chrono::microseconds thread_cpu_time() {
  timespec used{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::seconds(used.tv_sec) +
                                                               std::chrono::nanoseconds(used.tv_nsec));
}

SearchDeadline::SearchDeadline(std::chrono::microseconds limit)
    : end_(limit.count() > 0 ? thread_cpu_time() + limit : std::chrono::microseconds::max()) {}

void SearchDeadline::check() const {
  if (end_ != std::chrono::microseconds::max() && thread_cpu_time() >= end_) throw SearchTimeout();
}

Xapian::Query SearchDeadline::guard(const Xapian::Query& query) const {
  return {Xapian::Query::OP_FILTER, query, Xapian::Query((new DeadlineSource(*this))->release())};
}

}  // namespace freshet::search
