// Which keys in Redis are about a reader: the one registry that erasing and exporting go by. A test holds it
// against kKeyPatterns, so that no pattern is without a row here.
#pragma once

#include <array>
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

// What a reader is called apart from their id, under the salt (identity.salt_file): the visitor that UV and
// sessions count, and the name of their user:epoch key. Empty functions: nothing is called so.
struct ReaderHashes {
  std::function<std::string(const ReaderId&)> visitor;
  std::function<std::string(const ReaderId&)> epoch;
};

enum class About : std::uint8_t {
  kNobody,   // no reader can be told from it, or only by a salted hash that stays (user:epoch)
  kReader,   // one part of the name says whose it is: the id, the visitor, or what a client made of the id
  kMembers,  // a set or ZSET of such names
};
struct KeyOwner {
  std::string_view pattern;  // of kKeyPatterns
  About about;
  std::size_t part = 0;  // kReader: which part between colons, from 0
};
inline constexpr std::array kKeyOwners{
    KeyOwner{"hot:pv:*", About::kNobody},
    KeyOwner{"hot:uv:hll:*", About::kNobody},  // registers of hashes
    KeyOwner{"hot:dwell:sum:*", About::kNobody},
    KeyOwner{"hot:dwell:cnt:*", About::kNobody},
    KeyOwner{"hot:first_ts:*", About::kNobody},
    KeyOwner{"hot:session:*:*", About::kReader, 3},
    KeyOwner{"hot:event:*:*", About::kReader, 3},  // a client may use its reader's id as an event's
    KeyOwner{"hot:views:*", About::kNobody},
    KeyOwner{"hot:dedup:*:*", About::kReader, 3},  // likewise as a fingerprint
    KeyOwner{"hot:uv:*:*", About::kMembers},
    KeyOwner{"hot:view:event:*:*", About::kReader, 4},
    KeyOwner{"hot:added:*", About::kReader, 2},
    KeyOwner{"item:*", About::kNobody},
    KeyOwner{"hot:rank", About::kNobody},
    KeyOwner{"hot:rank:next", About::kNobody},
    KeyOwner{"hot:rank:meta", About::kNobody},
    KeyOwner{"hot:rank:lock", About::kNobody},
    KeyOwner{"hot:score", About::kNobody},
    KeyOwner{"hot:published", About::kNobody},
    KeyOwner{"hot:hidden", About::kNobody},
    KeyOwner{"hot:newest", About::kNobody},
    KeyOwner{"hot:epoch", About::kNobody},
    KeyOwner{"hot:lost", About::kNobody},
    KeyOwner{"hot:current:index", About::kNobody},
    KeyOwner{"hot:current:*", About::kNobody},
    KeyOwner{"tag:*", About::kNobody},
    KeyOwner{"feed:cache:*", About::kReader, 2},
    KeyOwner{"feed:state:*", About::kReader, 2},
    KeyOwner{"feed:pending:*", About::kReader, 2},
    KeyOwner{"feed:page:*:*", About::kReader, 2},
    KeyOwner{"user:interactions:*", About::kReader, 2},
    KeyOwner{"user:earlier:*", About::kReader, 2},
    KeyOwner{"user:views:topic:*", About::kReader, 3},
    KeyOwner{"user:views:reply:*", About::kReader, 3},
    KeyOwner{"user:views:at:*", About::kReader, 3},
    KeyOwner{"user:not_interested:*", About::kReader, 2},
    KeyOwner{"user:not_interested:why:*", About::kReader, 3},
    KeyOwner{"user:events:*", About::kReader, 2},
    KeyOwner{"user:epoch:*", About::kNobody},
    KeyOwner{"wf:*:*", About::kReader, 2},
    KeyOwner{"active:*", About::kMembers},
    KeyOwner{"follow:authors:*", About::kReader, 2},
    KeyOwner{"follow:readers:*", About::kMembers},  // the author in its name is what the site calls them
    KeyOwner{"follow:outbox:*", About::kNobody},
    KeyOwner{"follow:pull:*", About::kNobody},
    KeyOwner{"follow:pulled", About::kNobody},
    KeyOwner{"job:*", About::kNobody},
    KeyOwner{"job:*:*", About::kNobody},
    KeyOwner{"bf:global:*:*", About::kNobody},  // fingerprints; the epoch makes them unreadable
    KeyOwner{"bf:global:*", About::kNobody},
    KeyOwner{"recorder:stream", About::kNobody},  // the recorder's own business, see core/recorder/eraser.h
    KeyOwner{"hot:list", About::kNobody},
    KeyOwner{"hot:list:meta", About::kNobody},
    KeyOwner{"hot:list:lock", About::kNobody},
    KeyOwner{"hot:list:*:*:*:*", About::kNobody},
    KeyOwner{"hot:list:meta:*:*:*:*", About::kNobody},
    KeyOwner{"hot:list:lock:*:*:*:*", About::kNobody},
};
// nullptr: the pattern has no row.
const KeyOwner* owner_of(std::string_view pattern);

// Names of one or more readers. What is empty names nobody.
using Names = std::unordered_set<std::string>;
void add_names(Names& names, const ReaderId& reader, const ReaderHashes& hashes);

struct Membership {
  std::string key;
  bool sorted = false;  // a ZSET
};
struct PersonalPage {
  std::string cursor;             // for the next page; "0": there is none
  std::size_t looked_at = 0;      // keys
  std::vector<std::string> keys;  // kReader, of one of the names
  std::vector<Membership> sets;   // kMembers: to be asked
};
// One page of a walk over all keys; begins with cursor "0". A key that is there from the walk's beginning to
// its end is found at least once. 1 RTT.
Task<Result<PersonalPage>> scan_personal(redis::Redis& redis, const redis::Keys& keys, const Names& names,
                                         std::string_view cursor);

// Deletes what the page found, and the names in its sets. 1 RTT, none without any.
Task<Result<void>> erase_personal(redis::Redis& redis, const Names& names, const PersonalPage& page);

}  // namespace freshet::readers
