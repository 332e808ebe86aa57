#include "core/redis/reply.h"

#include <dlfcn.h>
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

extern "C" {
#include <hiredis/hiredis.h>
}

using namespace freshet::redis;

namespace {

// An arbitrary reply, including nested arrays.
std::string any_reply(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 8 : 6);
  const auto text = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  switch (kind) {
    case 0:
      return ":" + std::to_string(*rc::gen::arbitrary<std::int64_t>()) + "\r\n";
    case 1:
      return "$-1\r\n";
    case 2:
      return "*-1\r\n";
    case 3:
      return "+OK\r\n";
    case 4:
      return "-WRONGTYPE of a key\r\n";
    case 5:
      return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
    case 6:  // longer than one block of a tree
      return "$20000\r\n" + std::string(20000, 'x') + "\r\n";
    default:
      break;
  }
  const int elements = *rc::gen::inRange(0, 60);
  std::string out = "*" + std::to_string(elements) + "\r\n";
  for (int i = 0; i < elements; ++i) out += any_reply(depth - 1);
  return out;
}

std::string text_of(const redisReply& reply) {
  std::string out = std::to_string(reply.type) + " " + std::to_string(reply.integer) + " ";
  if (reply.str != nullptr) out += std::string(reply.str, static_cast<std::size_t>(reply.len) + 1);
  out += "[";
  for (std::size_t i = 0; i < reply.elements; ++i) out += text_of(*reply.element[i]);
  return out + "]";
}

struct Reader {
  redisReader* reader = redisReaderCreate();
  Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { redisReaderFree(reader); }
  redisReply* next() const {
    void* reply = nullptr;
    REQUIRE(redisReaderGetReply(reader, &reply) == REDIS_OK);
    return static_cast<redisReply*>(reply);
  }
};

}  // namespace

TEST_CASE("a tree holds the same as hiredis' own reply, however the bytes arrive", "[reply]") {
  CHECK(rc::check([] {
    const std::string bytes = any_reply(2);
    const Reader usual;
    redisReaderFeed(usual.reader, bytes.data(), bytes.size());
    redisReply* const wanted = usual.next();
    ReplyAssembly assembly;
    const Reader trees;
    assembly.attach(*trees.reader);
    const std::size_t cut = *rc::gen::inRange<std::size_t>(0, bytes.size());
    redisReaderFeed(trees.reader, bytes.data(), cut);
    RC_ASSERT(trees.next() == nullptr);
    redisReaderFeed(trees.reader, bytes.data() + cut, bytes.size() - cut);
    redisReply* const got = trees.next();
    const bool same = text_of(*got) == text_of(*wanted);
    freeReplyObject(wanted);
    const Reply owner = Reply::from_tree(got);
    RC_ASSERT(same);
  }));
}

TEST_CASE("a reader frees a reply unless it was detached", "[reply]") {
  ReplyAssembly assembly;
  const Reader trees;
  assembly.attach(*trees.reader);
  const std::string bytes = "*2\r\n$1\r\na\r\n:7\r\n";
  for (const bool taken : {true, false, true}) {
    redisReaderFeed(trees.reader, bytes.data(), bytes.size());
    redisReply* const reply = trees.next();
    Reply owner;
    if (taken) {
      assembly.detach(reply);
      owner = Reply::from_tree(reply);
    }
    trees.reader->fn->freeObject(reply);  // as after a callback
    if (taken) CHECK(owner[1].integer() == 7);
  }
  redisReaderFeed(trees.reader, bytes.data(), bytes.size() - 2);  // freed with its reader
  CHECK(trees.next() == nullptr);
}

#if HIREDIS_MAJOR >= 1
TEST_CASE("doubles and booleans of RESP3 are read", "[reply]") {
  ReplyAssembly assembly;
  const Reader trees;
  assembly.attach(*trees.reader);
  for (const std::string bytes : {",1.5\r\n", "#t\r\n"}) {
    redisReaderFeed(trees.reader, bytes.data(), bytes.size());
    redisReply* const reply = trees.next();
    const Reply owner = Reply::from_tree(reply);
    REQUIRE(reply != nullptr);
    CHECK((bytes[0] == '#' ? reply->integer == 1 : std::string(reply->str) == "1.5"));
  }
}
#endif

#define FRESHET_TEXT(word) #word
#define FRESHET_TEXT_OF(macro) FRESHET_TEXT(macro)

// ReplyAssembly replaces functions in a structure of hiredis, so both must agree on its layout.
TEST_CASE("the loaded libhiredis is the one of the headers", "[reply]") {
  Dl_info loaded{};
  REQUIRE(dladdr(dlsym(RTLD_DEFAULT, "redisReaderCreateWithFunctions"), &loaded) != 0);
  CHECK(std::string(loaded.dli_fname).ends_with("/libhiredis.so." FRESHET_TEXT_OF(HIREDIS_SONAME)));
}
