// What recall searches: the local index, or the shards that xapian-tcpsrv serves; either is one
// Xapian::Database.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <memory>

#include "core/config/settings.h"

namespace freshet::feed {

// One thread's handle. Opens on first use, which is after the fork.
class SearchSource {
 public:
  virtual ~SearchSource() = default;
  // As of the last commit (remote: at most 1 s older), and the same until the next call. Throws
  // Xapian::Error or std::exception; then discard().
  virtual Xapian::Database& database() = 0;
  // Another number when current() may hold other documents than it did at the last call. > 0.
  std::uint64_t version() const { return version_; }
  // Forgets the handle; the next current() opens anew.
  virtual void discard() = 0;

 protected:
  std::uint64_t version_ = 0;
};

// The shards of `settings`, or its local index when it names none.
std::unique_ptr<SearchSource> make_search_source(const SearchSettings& settings);

}  // namespace freshet::feed
