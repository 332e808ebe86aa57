// The database that recall searches: the local index, or the shards served by xapian-tcpsrv,
// combined into one Xapian::Database.
#pragma once

#include <xapian.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/config/settings.h"
#include "core/search/recent_index.h"

namespace freshet::feed {

// One thread's database handle. Opened on first use, after the fork.
class SearchSource {
 public:
  virtual ~SearchSource() = default;
  // The database as of the last commit (remote: at most 1 s older). Stays valid and unchanged until
  // the next call. Throws Xapian::Error or std::exception; call discard() then.
  virtual Xapian::Database& database() = 0;
  // The local index's time slices, of which database() consists, oldest first; empty with remote
  // shards. Valid like the result of database().
  virtual const std::vector<search::OpenSlice>& slices() const = 0;
  // Returns true if all of database() has stems of search.stemmer. Always false for "none", and
  // from a change of the setting until the index is rebuilt. Valid like the result of database().
  bool has_stems() const { return has_stems_; }
  // Changes whenever database() may return other documents than at its last call. Above 0.
  std::uint64_t version() const { return version_; }
  // Closes the handle; the next database() opens a new one.
  virtual void discard() = 0;

 protected:
  std::uint64_t version_ = 0;
  bool has_stems_ = false;
};

// Uses the shards in `settings`, or the local index if there are none.
std::unique_ptr<SearchSource> make_search_source(const SearchSettings& settings);

}  // namespace freshet::feed
