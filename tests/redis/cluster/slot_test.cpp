#include "core/redis/cluster/slot.h"

#include <catch2/catch.hpp>

#include "core/redis/command.h"

using namespace freshet::redis;

namespace {

template <class... Args>
std::optional<std::uint16_t> slot_when_sent(const Args&... args) {
  Pipeline pipeline;
  pipeline.add(args...);
  return slot_of_command(pipeline.at(0));
}

}  // namespace

// Expected values are those of CLUSTER KEYSLOT.
TEST_CASE("The slot of a key is that of its hash tag, or of the whole key without one", "[cluster]") {
  CHECK(slot_of("") == 0);
  CHECK(slot_of("123456789") == 0x31C3);  // the example in Redis' specification, below 16384
  CHECK(slot_of("foo") == 12182);
  CHECK(slot_of("bar") == 5061);
  CHECK(slot_of("hot:article:{foo}") == slot_of("foo"));
  CHECK(slot_of("hot:session:{foo}:{bar}") == slot_of("foo"));
  CHECK(slot_of("foo{}{bar}") == 8363);
  CHECK(slot_of("foo{{bar}}zap") == slot_of("{bar"));
  CHECK(slot_of("foo{bar") == slot_of("foo{bar"));
  CHECK(slot_of("{foo") != slot_of("foo"));
}

TEST_CASE("A command is routed by its first key, wherever that is", "[cluster]") {
  const auto foo = std::optional(slot_of("foo"));
  CHECK(slot_when_sent("GET", "foo") == foo);
  CHECK(slot_when_sent("SET", "{foo}x", "v", "EX", 10) == foo);
  CHECK(slot_when_sent("MGET", "foo", "bar") == foo);
  CHECK(slot_when_sent("EVALSHA", "sha", 2, "foo", "bar", "argument") == foo);
  CHECK(slot_when_sent("EVAL", "return 1", 1, "foo") == foo);
  CHECK(slot_when_sent("XGROUP", "CREATE", "foo", "g", "0") == foo);
  CHECK(slot_when_sent("OBJECT", "ENCODING", "foo") == foo);
  CHECK(slot_when_sent("ZUNION", 2, "foo", "bar") == foo);
  CHECK(slot_when_sent("XREADGROUP", "GROUP", "g", "c", "COUNT", 10, "STREAMS", "foo", ">") == foo);
}

TEST_CASE("A command without a key may be sent to any node", "[cluster]") {
  CHECK_FALSE(slot_when_sent("PING"));
  CHECK_FALSE(slot_when_sent("PUBLISH", "channel", "message"));
  CHECK_FALSE(slot_when_sent("SCAN", 0, "MATCH", "hot:*"));
  CHECK_FALSE(slot_when_sent("EVALSHA", "sha", 0, "argument"));
  CHECK_FALSE(slot_when_sent("SCRIPT", "LOAD", "return 1"));
  CHECK_FALSE(slot_of_command("*1\r\n$"));
  CHECK_FALSE(slot_of_command(""));
}
