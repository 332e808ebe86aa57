#include "core/redis/reply.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

extern "C" {
#include <hiredis/hiredis.h>
}

#include "core/redis/redis.h"

namespace freshet::redis {

struct ReplyTree {
  redisReply reply;  // must be first: hiredis knows the tree by this address
  ReplyAssembly* owner;
  void* blocks;     // further blocks, linked through their first bytes
  char* next_free;  // in the current block
  std::size_t free_bytes;
};

namespace {

tl::unexpected<Error> wrong_type(const char* expected) {
  return fail(ErrorCode::kInternal, "redis_type", {}, std::string("reply is not ") + expected);
}

std::string_view text_of(const redisReply* raw) { return {raw->str, static_cast<std::size_t>(raw->len)}; }

bool is_text(const redisReply* raw) {
  return raw && (raw->type == REDIS_REPLY_STRING || raw->type == REDIS_REPLY_STATUS);
}

constexpr std::size_t kAlign = alignof(std::max_align_t);
// A short string with its text, and some slack.
constexpr std::size_t kBytesPerElement = 64 + sizeof(redisReply);
constexpr std::size_t kMaxPreallocated = 64UL * 1024;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

ReplyTree* make_tree(std::size_t preallocated) {
  constexpr std::size_t kHead = aligned(sizeof(ReplyTree));
  auto* const memory = static_cast<char*>(std::malloc(kHead + preallocated));
  if (memory == nullptr) return nullptr;
  auto* const tree = reinterpret_cast<ReplyTree*>(memory);
  *tree = {{}, nullptr, nullptr, memory + kHead, preallocated};
  return tree;
}

void* allocate(ReplyTree& tree, std::size_t wanted) {
  const std::size_t bytes = aligned(wanted);
  if (bytes > tree.free_bytes) {
    constexpr std::size_t kHead = aligned(sizeof(void*));
    const std::size_t block = std::max<std::size_t>(bytes, 4096);
    auto* const memory = static_cast<char*>(std::malloc(kHead + block));
    if (memory == nullptr) return nullptr;
    std::memcpy(memory, &tree.blocks, sizeof tree.blocks);
    tree.blocks = memory;
    tree.next_free = memory + kHead;
    tree.free_bytes = block;
  }
  tree.free_bytes -= bytes;
  return std::exchange(tree.next_free, tree.next_free + bytes);
}

void free_tree(redisReply* reply) {
  auto* const tree = reinterpret_cast<ReplyTree*>(reply);
  for (void* block = tree->blocks; block != nullptr;) {
    void* next = nullptr;
    std::memcpy(&next, block, sizeof next);
    std::free(block);
    block = next;
  }
  std::free(tree);
}

}  // namespace

void Reply::Deleter::operator()(redisReply* raw) const noexcept {
  if (owner == Owner::kHiredis) freeReplyObject(raw);
  if (owner == Owner::kTree) free_tree(raw);
}

Reply Reply::from_resp(std::string_view resp) {
  redisReader* const reader = redisReaderCreate();
  void* out = nullptr;
  if (redisReaderFeed(reader, resp.data(), resp.size()) == REDIS_OK) redisReaderGetReply(reader, &out);
  redisReaderFree(reader);
  return Reply(static_cast<redisReply*>(out));
}

Reply Reply::from_error(std::string_view line) {
  const std::string resp = "-" + std::string(line) + "\r\n";
  redisReader* const reader = redisReaderCreate();
  void* out = nullptr;
  if (reader != nullptr && redisReaderFeed(reader, resp.data(), resp.size()) == REDIS_OK)
    redisReaderGetReply(reader, &out);
  redisReaderFree(reader);
  if (out == nullptr) std::abort();  // out of memory
  return Reply(static_cast<redisReply*>(out));
}

bool Reply::is_error() const { return raw_ && raw_->type == REDIS_REPLY_ERROR; }
bool Reply::is_nil() const { return raw_ && raw_->type == REDIS_REPLY_NIL; }
bool Reply::is_array() const { return raw_ && raw_->type == REDIS_REPLY_ARRAY; }
std::string_view Reply::error() const { return is_error() ? text_of(raw_.get()) : std::string_view(); }

Result<std::int64_t> Reply::integer() const {
  if (is_error()) return tl::unexpected(classify(error()));
  if (raw_ && raw_->type == REDIS_REPLY_INTEGER) return raw_->integer;
  if (is_text(raw_.get())) {
    const std::string_view text = text_of(raw_.get());
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  }
  return wrong_type("an integer");
}

Result<std::string_view> Reply::string() const {
  if (is_error()) return tl::unexpected(classify(error()));
  if (is_text(raw_.get())) return text_of(raw_.get());
  return wrong_type("a string");
}

Result<std::optional<std::string_view>> Reply::optional_string() const {
  if (is_nil()) return std::optional<std::string_view>();
  return string().map([](std::string_view text) { return std::optional(text); });
}

std::string_view Reply::text() const {
  return is_text(raw_.get()) ? text_of(raw_.get()) : std::string_view();
}

Result<double> Reply::number() const {
  if (is_error()) return tl::unexpected(classify(error()));
  if (raw_ && raw_->type == REDIS_REPLY_INTEGER) return static_cast<double>(raw_->integer);
  if (is_text(raw_.get())) {
    const std::string_view text = text_of(raw_.get());
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) return value;
  }
  return wrong_type("a finite number");
}

std::size_t Reply::size() const { return is_array() ? raw_->elements : 0; }

Reply Reply::operator[](std::size_t index) const {
  if (index >= size()) return Reply();
  return Reply(raw_->element[index], Owner::kNone);
}

// Callbacks for hiredis. Null means out of memory; hiredis then fails the connection.
struct TreeFunctions {
  static ReplyAssembly& assembly(const redisReadTask* task) {
    return *static_cast<ReplyAssembly*>(task->privdata);
  }
  // Allocates the task's reply and `bytes` more in its tree.
  static redisReply* make_reply(const redisReadTask* task, std::size_t bytes, std::size_t preallocated,
                                void*& memory) {
    ReplyTree*& tree = assembly(task).current_;
    redisReply* reply = nullptr;
    if (task->parent == nullptr) {
      tree = make_tree(aligned(bytes) + preallocated);
      if (tree == nullptr) return nullptr;
      tree->owner = &assembly(task);
      reply = &tree->reply;
    } else {
      reply = static_cast<redisReply*>(allocate(*tree, sizeof(redisReply)));
      if (reply == nullptr) return nullptr;
      *reply = {};
    }
    memory = allocate(*tree, bytes);
    if (memory == nullptr) return nullptr;
    reply->type = task->type;
    if (task->parent != nullptr) static_cast<redisReply*>(task->parent->obj)->element[task->idx] = reply;
    return reply;
  }

  static void* string(const redisReadTask* task, char* text, std::size_t size) {
    void* memory = nullptr;
    redisReply* const reply = make_reply(task, size + 1, 0, memory);
    if (reply == nullptr) return nullptr;
    reply->str = static_cast<char*>(memory);
    std::memcpy(reply->str, text, size);
    reply->str[size] = '\0';
    reply->len = size;
    return reply;
  }
  // hiredis 0.14 passes an int, later versions a size_t.
  template <std::integral Count>
  static void* array(const redisReadTask* task, Count elements) {
    const auto count = static_cast<std::size_t>(std::max(Count{0}, elements));
    void* memory = nullptr;
    redisReply* const reply = make_reply(task, count * sizeof(redisReply*),
                                         std::min(kMaxPreallocated, count * kBytesPerElement), memory);
    if (reply == nullptr) return nullptr;
    reply->element = static_cast<redisReply**>(memory);
    std::fill_n(reply->element, count, nullptr);
    reply->elements = count;
    return reply;
  }
  static void* integer(const redisReadTask* task, long long value) {
    void* memory = nullptr;
    redisReply* const reply = make_reply(task, 0, 0, memory);
    if (reply != nullptr) reply->integer = value;
    return reply;
  }
  static void* nil(const redisReadTask* task) {
    void* memory = nullptr;
    redisReply* const reply = make_reply(task, 0, 0, memory);
    if (reply != nullptr) reply->type = REDIS_REPLY_NIL;  // the task has the type of the missing value
    return reply;
  }
  // RESP3 types. No command asks for RESP3, and Reply has no accessor for them.
  static void* number(const redisReadTask* task, double /*value*/, char* text, std::size_t size) {
    return string(task, text, size);
  }
  static void* boolean(const redisReadTask* task, int value) { return integer(task, value); }
  // Called for complete replies and for unfinished ones.
  static void free_unless_detached(void* reply) {
    if (reply == nullptr) return;
    auto* const tree = reinterpret_cast<ReplyTree*>(reply);
    if (std::exchange(tree->owner->detached_, nullptr) != reply) free_tree(&tree->reply);
  }
};

// A template, since the members differ between hiredis 0.14 and later versions.
template <class Functions>
Functions make_tree_functions() {
  Functions out{};
  out.createString = &TreeFunctions::string;
  out.createArray = &TreeFunctions::array;
  out.createInteger = &TreeFunctions::integer;
  out.createNil = &TreeFunctions::nil;
  out.freeObject = &TreeFunctions::free_unless_detached;
  if constexpr (requires { out.createDouble; }) {
    out.createDouble = &TreeFunctions::number;
    out.createBool = &TreeFunctions::boolean;
  }
  return out;
}

void ReplyAssembly::attach(redisReader& reader) {
  static redisReplyObjectFunctions functions = make_tree_functions<redisReplyObjectFunctions>();
  reader.fn = &functions;
  reader.privdata = this;
}

Task<Result<Replies>> run_all(Redis& redis, const Pipeline& pipeline) {
  auto replies = co_await redis.run(pipeline);
  if (!replies) co_return replies;
  for (const Reply& each : *replies) {
    if (each.is_error()) co_return tl::unexpected(classify(each.error()));
  }
  co_return replies;
}

Task<Result<Reply>> run_one(Redis& redis, const Pipeline& pipeline) {
  FRESHET_CO_TRY(replies, co_await redis.run(pipeline));
  Reply& first = replies->front();
  if (first.is_error()) co_return tl::unexpected(classify(first.error()));
  co_return std::move(first);
}

}  // namespace freshet::redis
