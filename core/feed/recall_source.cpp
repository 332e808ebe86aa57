#include "core/feed/recall_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "core/base/time.h"
#include "core/search/index_folder.h"
#include "core/search/search_schema.h"

namespace freshet::feed {
namespace {

using Clock = std::chrono::steady_clock;

// A handle survives one later commit; a second may remove data that it still reads. The recorder
// pauses for a quarter of a second between commits (recorder::kIndexCommitInterval), so it is
// enough that each search starts from the newest commit. reopen() reads a file of each time slice
// (0.06 ms for six), so a check for changes comes first: a commit replaces each changed slice's
// kVersionFile. A change is missed only if two commits within one tick of the kernel clock reuse an
// inode.
//
// A remote handle is replaced instead, since the server side of a connection never learns of slices
// created later: 1 ms, once a second per thread. At ten times that rate it dominated the latency of
// the slowest 1 % of searches.
constexpr milliseconds kRemoteRefreshInterval{1000};
constexpr useconds_t kConnectTimeoutMs = 500;
constexpr useconds_t kReplyTimeoutMs = 2000;

constexpr std::string_view kVersionFile = "iamglass";  // written by Xapian's glass backend

// Inode and change time of the file at a path.
struct FileStamp {
  explicit FileStamp(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return;
    inode = found.st_ino;
    second = found.st_ctim.tv_sec;
    nanosecond = found.st_ctim.tv_nsec;
  }
  ino_t inode = 0;  // 0: no such file
  std::int64_t second = 0, nanosecond = 0;
  bool operator==(const FileStamp&) const = default;
};

class LocalIndex final : public SearchSource {
 public:
  explicit LocalIndex(const SearchSettings& settings) : folder_(settings.index), stemmer_(settings.stemmer) {}

  Xapian::Database& database() override {
    if (database_ && is_unchanged()) return *database_;
    const FileStamp stub_stamp(folder_.stub_file());  // taken before the file is read
    std::vector<search::TimeSlice> slices = list_slices();
    std::vector<WatchedFile> watched_files{{folder_.stub_file(), stub_stamp}};
    for (const search::TimeSlice& each : slices) watched_files.emplace_back(version_file_of(each));
    const auto is_open = [](const search::OpenSlice& open, const search::TimeSlice& slice) {
      return open.slice == slice;
    };
    if (!database_ ||
        !std::equal(open_slices_.begin(), open_slices_.end(), slices.begin(), slices.end(), is_open))
      open(slices);
    else if (database_->reopen())
      ++version_;
    watched_files_ = std::move(watched_files);
    return *database_;
  }
  const std::vector<search::OpenSlice>& slices() const override { return open_slices_; }
  void discard() override { database_.reset(); }

 private:
  struct WatchedFile {
    explicit WatchedFile(std::string file_path) : path(std::move(file_path)), stamp(path) {}
    WatchedFile(std::string file_path, FileStamp seen) : path(std::move(file_path)), stamp(seen) {}
    std::string path;
    FileStamp stamp;
  };
  std::string version_file_of(const search::TimeSlice& slice) const {
    return folder_.path_of(slice).append("/").append(kVersionFile);
  }
  bool is_unchanged() const {
    return std::all_of(watched_files_.begin(), watched_files_.end(), [](const WatchedFile& each) {
      return each.stamp.inode != 0 && FileStamp(each.path) == each.stamp;
    });
  }
  std::vector<search::TimeSlice> list_slices() const {
    std::optional<std::vector<search::TimeSlice>> slices = folder_.slices();
    if (!slices) throw Xapian::DatabaseNotFoundError("no index in " + folder_.path().string());
    return *std::move(slices);
  }
  void open(const std::vector<search::TimeSlice>& slices) {
    database_.reset();
    open_slices_.clear();
    ++version_;
    Xapian::Database all;
    has_stems_ = true;
    for (const search::TimeSlice& each : slices) {
      open_slices_.push_back({each, Xapian::Database(folder_.path_of(each))});
      const Xapian::Database& opened = open_slices_.back().database;
      has_stems_ &= search::has_stems_of(opened.get_metadata(search::kVersionKey), stemmer_);
      all.add_database(opened);
    }
    database_ = all;
  }

  search::IndexFolder folder_;
  std::string stemmer_;
  std::optional<Xapian::Database> database_;
  std::vector<search::OpenSlice> open_slices_;  // share their state with database_
  // The stub file, then a file of each slice; stamps taken before they were read.
  std::vector<WatchedFile> watched_files_;
};

class RemoteShards final : public SearchSource {
 public:
  explicit RemoteShards(const SearchSettings& settings)
      : stemmer_(settings.stemmer), expected_version_(search::terms_version(settings.stemmer)) {
    for (const std::string& each : settings.shards) {
      const std::size_t colon = each.rfind(':');
      const int port = colon == std::string::npos ? 0 : std::atoi(each.c_str() + colon + 1);
      servers_.push_back({each.substr(0, colon), static_cast<unsigned>(port)});
    }
  }

  Xapian::Database& database() override {
    const Clock::time_point now = Clock::now();
    if (database_ && now < fresh_until_) return *database_;
    database_.reset();
    ++version_;
    Xapian::Database all;
    has_stems_ = true;
    for (const Server& each : servers_) {
      const Xapian::Database shard =
          Xapian::Remote::open(each.host, each.port, kReplyTimeoutMs, kConnectTimeoutMs);
      if (shard.get_doccount() > 0) check_version(each, shard.get_metadata(search::kVersionKey));
      all.add_database(shard);
    }
    database_ = all;
    fresh_until_ = now + kRemoteRefreshInterval;
    return *database_;
  }
  const std::vector<search::OpenSlice>& slices() const override { return none_; }
  void discard() override { database_.reset(); }

 private:
  struct Server {
    std::string host;
    unsigned port = 0;
  };
  // Logs a shard whose terms are of another version, once per process until it has ours. It is
  // searched all the same: most words are equal.
  void check_version(const Server& server, const std::string& version) {
    static std::mutex mutex;
    static std::set<std::string> reported;
    has_stems_ &= search::has_stems_of(version, stemmer_);
    const std::string address = server.host + ":" + std::to_string(server.port);
    const std::lock_guard lock(mutex);
    if (version == expected_version_) {
      reported.erase(address);
    } else if (reported.insert(address).second) {
      log::warning(
          "index_pipeline_mismatch",
          {{"shard", address},
           {"version", version},
           {"expected", expected_version_},
           {"fix", "install the same version of Freshet and set the same search.stemmer on its host"}});
    }
  }

  const std::vector<search::OpenSlice> none_;
  const std::string stemmer_, expected_version_;
  std::vector<Server> servers_;
  std::optional<Xapian::Database> database_;
  Clock::time_point fresh_until_;
};

}  // namespace

std::unique_ptr<SearchSource> make_search_source(const SearchSettings& settings) {
  if (settings.shards.empty()) return std::make_unique<LocalIndex>(settings);
  return std::make_unique<RemoteShards>(settings);
}

}  // namespace freshet::feed
