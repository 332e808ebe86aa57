// Finding and erasing the keys in Redis that are about a reader, as redis::kKeyPatterns says which.
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

// What a reader is called apart from their id, under the salt (identity.salt_file): the visitor
// that UV and sessions count, and the name of their user:epoch key. Empty functions: nothing is
// called so.
struct ReaderPseudonyms {
  std::function<std::string(const ReaderId&)> visitor;
  std::function<std::string(const ReaderId&)> erasure;
  // Those there are: what an erasure is remembered by.
  std::vector<std::string> all(const ReaderId& reader) const {
    std::vector<std::string> out;
    if (erasure) out.push_back(erasure(reader));
    if (visitor) out.push_back(visitor(reader));
    return out;
  }
};

// Names of one or more readers. What is empty names nobody.
using ReaderNames = std::unordered_set<std::string>;
void add_reader_names(ReaderNames& names, const ReaderId& reader, const ReaderPseudonyms& pseudonyms);

struct MemberSet {
  std::string key;
  bool is_sorted = false;  // a ZSET
};
struct PersonalKeyPage {
  std::string cursor;             // for the next page; "0": there is none
  std::size_t scanned = 0;      // keys
  std::vector<std::string> keys;  // kReader, of one of the names
  std::vector<MemberSet> member_sets;   // kMembers: to be asked
};
// One page of a walk over all keys; begins with cursor "0". A key that is there from the walk's
// beginning to its end is found at least once. 1 RTT.
Task<Result<PersonalKeyPage>> scan_personal_keys(redis::Redis& redis, const redis::Keys& keys, const ReaderNames& names,
                                         std::string_view cursor);

// Deletes what the page found, and the names in its sets. 1 RTT, none without any.
Task<Result<void>> erase_personal_keys(redis::Redis& redis, const ReaderNames& names, const PersonalKeyPage& page);

}  // namespace freshet::readers
