// Finds and erases a reader's keys in Redis, as classified by redis::kKeyPatterns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::readers {

// Longer than a worker's write buffers hold a reader's data (a second) and a command on its
// background connection can take (kBulkTimeout in fcgi/worker_services.cpp). By then, the command
// has failed and is in the spool.
inline constexpr milliseconds kSettleTime{6500};
inline constexpr int kMaxMerges = 4;  // of one reader after another that are followed (user:merged)

// Pseudonyms of a reader under the salt (identity.salt_file): the visitor id that unique visitors
// and sessions are counted by, and the name of the reader's user:epoch key. A function is empty if
// there is no such pseudonym.
struct ReaderPseudonyms {
  std::function<std::string(const ReaderId&)> visitor;
  std::function<std::string(const ReaderId&)> erasure;
  // All configured pseudonyms. Erasures are recorded under these.
  std::vector<std::string> all(const ReaderId& reader) const {
    std::vector<std::string> out;
    if (erasure) out.push_back(erasure(reader));
    if (visitor) out.push_back(visitor(reader));
    return out;
  }
};

// Names of one or more readers. Empty names match no key.
using ReaderNames = std::unordered_set<std::string>;
void add_reader_names(ReaderNames& names, const ReaderId& reader, const ReaderPseudonyms& pseudonyms);

struct MemberSet {
  std::string key;
  bool is_sorted = false;  // a ZSET
};
struct PersonalKeyPage {
  std::string cursor;                  // of the next page; "0" at the end
  std::size_t scanned = 0;             // keys
  std::vector<std::string> keys;       // Subject::kReader keys of these readers
  std::vector<MemberSet> member_sets;  // Subject::kMembers keys, whose members must be checked
  // Hashes of readers who were merged into one of these (user:merged).
  std::vector<std::string> merged_readers;
  std::string scanned_at;  // unix s; set if there are merged_readers
  // user:visitors of other readers, each with a name of these readers in it.
  std::vector<std::pair<std::string, std::string>> merged_names;
};
// One page of a scan over all keys, which starts with cursor "0". A key that exists during the
// whole scan is returned at least once. 1 RTT; 2 if values or members of its keys must be read.
Task<Result<PersonalKeyPage>> scan_personal_keys(redis::Redis& redis, const redis::Keys& keys,
                                                 const ReaderNames& names, std::string_view cursor);

// Deletes the page's keys and removes the names from its sets. Readers who were merged into these
// get a tombstone instead of the redirect, so that their spooled events are void; the caller
// records their erasure first. 1 RTT, none if the page is empty.
Task<Result<void>> erase_personal_keys(redis::Redis& redis, const redis::Keys& keys, const ReaderNames& names,
                                       const PersonalKeyPage& page, seconds tombstone_ttl);

}  // namespace freshet::readers
