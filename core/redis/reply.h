// Redis replies as owned, typed values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/redis/errors.h"

struct redisReader;
struct redisReply;

namespace freshet::redis {

// Owns one reply (hiredis' tree of redisReply). Empty after a move.
class Reply {
 public:
  Reply() = default;
  explicit Reply(redisReply* raw) : raw_(raw, Deleter(Owner::kHiredis)) {}
  // REQUIRES: `resp` is exactly one reply, encoded as RESP.
  static Reply from_resp(std::string_view resp);
  // An error reply that did not come from a server.
  static Reply from_error(std::string_view line);
  // Takes ownership of a reply made by a ReplyAssembly.
  static Reply from_tree(redisReply* raw) { return Reply(raw, Owner::kTree); }
  bool is_error() const;
  bool is_nil() const;
  bool is_array() const;
  std::string_view error() const;  // "NOSCRIPT …"; "" if it is not an error
  // Typed accessors. A reply of another type gives kInternal "redis_type", an error reply the error
  // of classify() (errors.h).
  Result<std::int64_t> integer() const;     // an integer, or a string that holds one
  Result<std::string_view> string() const;  // a string or status; valid while this Reply lives
  Result<std::optional<std::string_view>> optional_string() const;  // nil: nullopt
  // A string or status; "" for any other type. Valid while this Reply lives.
  std::string_view text() const;
  Result<double> number() const;              // a string as written by "%.17g", or an integer
  std::size_t size() const;                   // number of elements of an array, else 0
  Reply operator[](std::size_t index) const;  // non-owning view of an element; valid while the owner lives

 private:
  enum class Owner : std::uint8_t {
    kNone,     // elements belong to the array's owner
    kHiredis,  // owned; freed with freeReplyObject()
    kTree      // owned; a ReplyTree
  };
  struct Deleter {
    Deleter() noexcept : owner(Owner::kHiredis) {}
    explicit Deleter(Owner reply_owner) noexcept : owner(reply_owner) {}
    void operator()(redisReply* raw) const noexcept;
    Owner owner;
  };
  Reply(redisReply* raw, Owner owner) : raw_(raw, Deleter(owner)) {}
  std::unique_ptr<redisReply, Deleter> raw_;
};

struct ReplyTree;

// Makes a hiredis reader assemble replies as trees, each in one block of memory (a few if it is
// long), where hiredis allocates twice for every string. Must outlive the reader.
class ReplyAssembly {
 public:
  // Replies of `reader` are trees from now on.
  void attach(redisReader& reader);
  // Keeps hiredis from freeing this reply; the caller owns it.
  void detach(redisReply* reply) { detached_ = reply; }

 private:
  friend struct TreeFunctions;
  ReplyTree* current_ = nullptr;
  redisReply* detached_ = nullptr;
};

}  // namespace freshet::redis
