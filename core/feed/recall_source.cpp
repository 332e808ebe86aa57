#include "core/feed/recall_source.h"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/search/index_folder.h"

namespace freshet::feed {
namespace {

using Clock = std::chrono::steady_clock;

// A commit leaves a handle whole that is one behind, and the next may take from it what it reads;
// the recorder pauses for a quarter of a second between them (recorder::kIndexPause). So each
// search begins with the newest commit: reopen() of six partitions takes 0.06 ms. A remote handle
// is made anew instead (1 ms): the server's side of a connection never learns of partitions that
// came later.
constexpr milliseconds kRemoteAge{100};
constexpr useconds_t kConnectTimeoutMs = 500;
constexpr useconds_t kAnswerTimeoutMs = 2000;

class LocalIndex final : public SearchSource {
 public:
  explicit LocalIndex(const std::string& folder) : folder_(folder) {}

  Xapian::Database& current() override {
    std::vector<search::Partition> partitions = listed();
    if (!database_ || partitions != opened_)
      open(std::move(partitions));
    else if (database_->reopen())
      ++version_;
    return *database_;
  }
  void discard() override { database_.reset(); }

 private:
  std::vector<search::Partition> listed() const {
    std::optional<std::vector<search::Partition>> partitions = folder_.partitions();
    if (!partitions) throw Xapian::DatabaseNotFoundError("no index in " + folder_.path().string());
    return *std::move(partitions);
  }
  void open(std::vector<search::Partition> partitions) {
    database_.reset();
    ++version_;
    Xapian::Database all;
    for (const search::Partition& each : partitions)
      all.add_database(Xapian::Database(folder_.path_of(each)));
    database_ = all;
    opened_ = std::move(partitions);
  }

  search::IndexFolder folder_;
  std::optional<Xapian::Database> database_;
  std::vector<search::Partition> opened_;
};

class RemoteShards final : public SearchSource {
 public:
  explicit RemoteShards(const std::vector<std::string>& shards) {
    for (const std::string& each : shards) {
      const std::size_t colon = each.rfind(':');
      const int port = colon == std::string::npos ? 0 : std::atoi(each.c_str() + colon + 1);
      servers_.push_back({each.substr(0, colon), static_cast<unsigned>(port)});
    }
  }

  Xapian::Database& current() override {
    const Clock::time_point now = Clock::now();
    if (database_ && now < fresh_until_) return *database_;
    database_.reset();
    ++version_;
    Xapian::Database all;
    for (const Server& each : servers_) {
      all.add_database(Xapian::Remote::open(each.host, each.port, kAnswerTimeoutMs, kConnectTimeoutMs));
    }
    database_ = all;
    fresh_until_ = now + kRemoteAge;
    return *database_;
  }
  void discard() override { database_.reset(); }

 private:
  struct Server {
    std::string host;
    unsigned port = 0;
  };
  std::vector<Server> servers_;
  std::optional<Xapian::Database> database_;
  Clock::time_point fresh_until_;
};

}  // namespace

std::unique_ptr<SearchSource> search_source(const SearchSettings& settings) {
  if (settings.shards.empty()) return std::make_unique<LocalIndex>(settings.index);
  return std::make_unique<RemoteShards>(settings.shards);
}

}  // namespace freshet::feed
