// What a site owes its readers: to show them all that is kept about them, and to forget it.
// core/readers/users.h implements it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/readers/ports.h"

namespace freshet::readers {

struct DismissedAt {
  Dismissal dismissal;
  UnixSeconds at;
};

struct Follow {
  ReaderId reader;
  AuthorId author;
  UnixSeconds at;
};

// A key of Redis with all that it holds: a string's value; a list's elements; a hash's and a ZSET's names and
// values in turn, without a timeline's marks; of a set or ZSET of many readers' names only this one's.
struct StoredKey {
  std::string name;
  std::string type;  // as TYPE answers
  std::vector<std::string> values;
};

struct Export {
  std::vector<StoredKey> keys;
  bool more_keys = false;  // there are more than an export shows
  // Why the durable rows are missing; empty: they are here. On a host without the database always.
  std::string no_database;
  std::vector<ReaderEvent> interactions;  // oldest first
  std::optional<std::int64_t> next;       // the number of the first interaction that is not shown
  std::vector<DismissedAt> dismissals;
  std::vector<Follow> follows;
};

struct Job {
  std::string state;  // queued | running | done | failed
  std::int64_t done = 0, total = 0, failed = 0;
};

class Users {
 public:
  virtual ~Users() = default;
  // Interactions from the number `from` on; the rest with each. Walks over all keys of Redis:
  // O(keys), 2 RTT a thousand of them.
  virtual Task<Result<Export>> gather(const ReaderId& reader, std::int64_t from) = 0;
  // Makes a job that forgets everything about the reader (core/recorder/eraser.h), and returns its id; what
  // was written before is gone when it is done. Somebody unknown is forgotten likewise. 1 RTT.
  // Errors: kUnavailable "stream_full"; Redis' own.
  virtual Task<Result<std::string>> forget(const ReaderId& reader) = 0;
  // 1 RTT. Errors: kNotFound "unknown_job".
  virtual Task<Result<Job>> job(const EventId& id) = 0;
};

}  // namespace freshet::readers
