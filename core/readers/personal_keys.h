// Finds and erases a reader's keys in Redis, as classified by redis::kKeyPatterns.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::readers {

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
  std::string cursor;                     // of the next page; "0" at the end
  std::size_t scanned = 0;                // keys
  std::vector<std::string> keys;          // Subject::kReader keys of these readers
  std::vector<MemberSet> member_sets;     // Subject::kMembers keys, whose members must be checked
  std::vector<std::string> named_values;  // Subject::kValue keys, whose values must be checked
};
// One page of a scan over all keys, which starts with cursor "0". A key that exists during the
// whole scan is returned at least once. 1 RTT.
Task<Result<PersonalKeyPage>> scan_personal_keys(redis::Redis& redis, const redis::Keys& keys,
                                                 const ReaderNames& names, std::string_view cursor);

// Deletes the page's keys, and those whose value is one of the names, and removes the names from
// its member sets. 1 RTT, 2 if it has named values, none if the page is empty.
Task<Result<void>> erase_personal_keys(redis::Redis& redis, const ReaderNames& names,
                                       const PersonalKeyPage& page);

}  // namespace freshet::readers
