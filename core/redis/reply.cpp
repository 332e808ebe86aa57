#include "core/redis/reply.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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
  redisReply reply;  // first: hiredis knows the tree by it
  ReplyAssembly* owner;
  void* pieces;  // further memory, each piece beginning with the next one's address
  char* free;    // of the piece in use
  std::size_t left;
};

namespace {

tl::unexpected<Error> wrong_type(const char* wanted) {
  return fail(ErrorCode::kInternal, "redis_type", {}, std::string("reply is not ") + wanted);
}

std::string_view text_of(const redisReply* raw) { return {raw->str, static_cast<std::size_t>(raw->len)}; }

bool is_text(const redisReply* raw) {
  return raw && (raw->type == REDIS_REPLY_STRING || raw->type == REDIS_REPLY_STATUS);
}

constexpr std::size_t kAlign = alignof(std::max_align_t);
constexpr std::size_t kAnElement = 64 + sizeof(redisReply);  // a short string with its text, and room
constexpr std::size_t kMostAhead = 64UL * 1024;

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

ReplyTree* make_tree(std::size_t ahead) {
  constexpr std::size_t kHead = aligned(sizeof(ReplyTree));
  auto* const memory = static_cast<char*>(std::malloc(kHead + ahead));
  if (memory == nullptr) return nullptr;
  auto* const tree = reinterpret_cast<ReplyTree*>(memory);
  *tree = {{}, nullptr, nullptr, memory + kHead, ahead};
  return tree;
}

void* more(ReplyTree& tree, std::size_t wanted) {
  const std::size_t bytes = aligned(wanted);
  if (bytes > tree.left) {
    constexpr std::size_t kHead = aligned(sizeof(void*));
    const std::size_t piece = std::max<std::size_t>(bytes, 4096);
    auto* const memory = static_cast<char*>(std::malloc(kHead + piece));
    if (memory == nullptr) return nullptr;
    std::memcpy(memory, &tree.pieces, sizeof tree.pieces);
    tree.pieces = memory;
    tree.free = memory + kHead;
    tree.left = piece;
  }
  tree.left -= bytes;
  return std::exchange(tree.free, tree.free + bytes);
}

void free_tree(redisReply* reply) {
  auto* const tree = reinterpret_cast<ReplyTree*>(reply);
  for (void* piece = tree->pieces; piece != nullptr;) {
    void* next = nullptr;
    std::memcpy(&next, piece, sizeof next);
    std::free(piece);
    piece = next;
  }
  std::free(tree);
}

}  // namespace

void Reply::Deleter::operator()(redisReply* raw) const noexcept {
  if (owner == Owner::kHiredis) freeReplyObject(raw);
  if (owner == Owner::kTree) free_tree(raw);
}

Reply Reply::of_resp(std::string_view resp) {
  redisReader* const reader = redisReaderCreate();
  void* out = nullptr;
  if (redisReaderFeed(reader, resp.data(), resp.size()) == REDIS_OK) redisReaderGetReply(reader, &out);
  redisReaderFree(reader);
  return Reply(static_cast<redisReply*>(out));
}

Reply Reply::of_error(std::string_view line) {
  const std::string resp = "-" + std::string(line) + "\r\n";
  redisReader* const reader = redisReaderCreate();
  void* out = nullptr;
  if (reader != nullptr && redisReaderFeed(reader, resp.data(), resp.size()) == REDIS_OK)
    redisReaderGetReply(reader, &out);
  redisReaderFree(reader);
  if (out == nullptr) std::abort();  // no memory
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
  return Reply(raw_->element[index], Owner::kNobody);
}

// --- how replies are made

// hiredis' table. Null: there was no memory, and hiredis gives the connection up.
struct TreeFunctions {
  static ReplyAssembly& assembly(const redisReadTask* task) {
    return *static_cast<ReplyAssembly*>(task->privdata);
  }
  // A place for the task's reply, and `bytes` more of its tree.
  static redisReply* place(const redisReadTask* task, std::size_t bytes, std::size_t ahead, void*& memory) {
    ReplyTree*& tree = assembly(task).open_;
    redisReply* reply = nullptr;
    if (task->parent == nullptr) {
      tree = make_tree(aligned(bytes) + ahead);
      if (tree == nullptr) return nullptr;
      tree->owner = &assembly(task);
      reply = &tree->reply;
    } else {
      reply = static_cast<redisReply*>(more(*tree, sizeof(redisReply)));
      if (reply == nullptr) return nullptr;
      *reply = {};
    }
    memory = more(*tree, bytes);
    if (memory == nullptr) return nullptr;
    reply->type = task->type;
    if (task->parent != nullptr) static_cast<redisReply*>(task->parent->obj)->element[task->idx] = reply;
    return reply;
  }

  static void* string(const redisReadTask* task, char* text, std::size_t size) {
    void* memory = nullptr;
    redisReply* const reply = place(task, size + 1, 0, memory);
    if (reply == nullptr) return nullptr;
    reply->str = static_cast<char*>(memory);
    std::memcpy(reply->str, text, size);
    reply->str[size] = '\0';
    reply->len = size;
    return reply;
  }
  static void* array(const redisReadTask* task, int elements) {
    const auto count = static_cast<std::size_t>(std::max(0, elements));
    void* memory = nullptr;
    redisReply* const reply =
        place(task, count * sizeof(redisReply*), std::min(kMostAhead, count * kAnElement), memory);
    if (reply == nullptr) return nullptr;
    reply->element = static_cast<redisReply**>(memory);
    std::fill_n(reply->element, count, nullptr);
    reply->elements = count;
    return reply;
  }
  static void* integer(const redisReadTask* task, long long value) {
    void* memory = nullptr;
    redisReply* const reply = place(task, 0, 0, memory);
    if (reply != nullptr) reply->integer = value;
    return reply;
  }
  static void* nil(const redisReadTask* task) {
    void* memory = nullptr;
    redisReply* const reply = place(task, 0, 0, memory);
    if (reply != nullptr) reply->type = REDIS_REPLY_NIL;  // the task's is that of what is not there
    return reply;
  }
  // Of whole replies, and of one that was not finished.
  static void free_unless_taken(void* reply) {
    if (reply == nullptr) return;
    auto* const tree = reinterpret_cast<ReplyTree*>(reply);
    if (std::exchange(tree->owner->taken_, nullptr) != reply) free_tree(&tree->reply);
  }
};

void ReplyAssembly::assemble_for(redisReader& reader) {
  static redisReplyObjectFunctions functions{&TreeFunctions::string, &TreeFunctions::array,
                                             &TreeFunctions::integer, &TreeFunctions::nil,
                                             &TreeFunctions::free_unless_taken};
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
