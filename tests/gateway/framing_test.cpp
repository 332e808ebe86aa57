#include "fcgi/gateway/framing.h"

#include <rapidcheck.h>
#include <catch2/catch.hpp>

#include "tests/support/fcgi_bytes.h"

using namespace freshet::gateway;
using namespace freshet::test;

namespace {

FrameState frame_state(const std::string& bytes, FrameLimits limits = {}) {
  return Framer(limits).advance(bytes);
}

}  // namespace

TEST_CASE("A complete request is recognized, however its bytes are split", "[framing]") {
  const std::string bytes = post_request("/api/track", std::string(70000, 'x'));
  REQUIRE(rc::check("any split", [&] {
    Framer framer{FrameLimits{}};
    std::size_t have = 0;
    while (have < bytes.size()) {
      RC_ASSERT(framer.advance(std::string_view(bytes).substr(0, have)) == FrameState::kIncomplete);
      have += *rc::gen::inRange<std::size_t>(1, 9000);
    }
    RC_ASSERT(framer.advance(bytes) == FrameState::kComplete);
    RC_ASSERT(framer.body_bytes() == 70000U);
    RC_ASSERT(framer.keep_connection());
  }));
}

TEST_CASE("Every prefix of a request is incomplete", "[framing]") {
  const std::string bytes = post_request("/t", "{}");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    CHECK(frame_state(bytes.substr(0, size)) == FrameState::kIncomplete);
  }
  CHECK(frame_state(bytes) == FrameState::kComplete);
}

TEST_CASE("Bytes after a request are rejected: nginx does not pipeline", "[framing]") {
  CHECK(frame_state(get_request("/") + get_request("/")) == FrameState::kMalformed);
  CHECK(frame_state(get_request("/") + "x") == FrameState::kMalformed);
}

TEST_CASE("Records out of order, of another request or of another protocol are rejected", "[framing]") {
  CHECK(frame_state(begin_request() + begin_request()) == FrameState::kMalformed);
  CHECK(frame_state(begin_request() + record(kStdin, {})) == FrameState::kMalformed);
  CHECK(frame_state(begin_request() + record(kParams, "ab", 2)) == FrameState::kMalformed);
  CHECK(frame_state(begin_request() + record(kAbort, {})) == FrameState::kMalformed);
  CHECK(frame_state(begin_request() + record(kParams, {}) + record(kAbort, {})) == FrameState::kMalformed);
  CHECK(frame_state(begin_request(true, 2)) == FrameState::kMalformed);  // the authorizer role
  CHECK(frame_state(record(kBegin, std::string(8, '\0'), 0)) == FrameState::kMalformed);
  CHECK(frame_state(record(kBegin, "ab")) == FrameState::kMalformed);
  CHECK(frame_state(record(200, {})) == FrameState::kMalformed);
  CHECK(frame_state("GET / HTTP/1.1\r\n\r\n") == FrameState::kMalformed);
  CHECK(frame_state("\2") == FrameState::kMalformed);
}

TEST_CASE("Padding after content is skipped, but rejected where libfcgi would read it as a header",
          "[framing]") {
  const std::string begin("\0\1\1\0\0\0\0\0", 8);
  const std::string params = record(kParams, name_value("A", "b"), 1, 255);
  const std::string ends = record(kParams, {}) + record(kStdin, "body", 1, 4) + record(kStdin, {});
  CHECK(frame_state(record(kBegin, begin) + params + ends) == FrameState::kComplete);
  CHECK(frame_state(record(kBegin, begin, 1, 8) + params + ends) == FrameState::kMalformed);
  CHECK(frame_state(record(kBegin, begin, 1, 8).substr(0, 8)) == FrameState::kMalformed);
  CHECK(frame_state(record(kBegin, begin) + params + record(kParams, {}, 1, 8)) == FrameState::kMalformed);
  CHECK(frame_state(record(kBegin, begin) + params + record(kParams, {}) + record(kStdin, {}, 1, 8)) ==
        FrameState::kMalformed);
}

TEST_CASE("A NUL in a parameter's name or value is rejected, however it is split", "[framing]") {
  using namespace std::string_literals;
  for (const auto& pair :
       {name_value("REQUEST_URI", "/a\0b"s), name_value("A\0B"s, "x"), name_value("A", "\0"s)}) {
    const std::string bytes = begin_request() + stream(kParams, pair) + record(kStdin, {});
    CHECK(frame_state(bytes) == FrameState::kMalformed);
    Framer framer{FrameLimits{}};
    FrameState state = FrameState::kIncomplete;
    for (std::size_t size = 1; size <= bytes.size() && state == FrameState::kIncomplete; ++size)
      state = framer.advance(std::string_view(bytes).substr(0, size));
    CHECK(state == FrameState::kMalformed);
  }
}

TEST_CASE("A pair with a false length is rejected before libfcgi could allocate it, however it is split",
          "[framing]") {
  const std::string huge(
      "\xff\xff\xff\x7f\x01"
      "ab",
      7);
  const std::string longer = name_value("A", std::string(300, 'v'));
  for (const std::size_t cut : {1U, 3U, 100U, 1000U}) {
    const auto framed = [&](const std::string& params) {
      return frame_state(begin_request() + stream(kParams, params, cut) + stream(kStdin, {}));
    };
    CAPTURE(cut);
    CHECK(framed(huge) == FrameState::kMalformed);
    CHECK(framed(longer + longer) == FrameState::kComplete);
    CHECK(framed(longer + huge) == FrameState::kMalformed);
    CHECK(framed(longer.substr(0, longer.size() - 1)) == FrameState::kMalformed);
    CHECK(framed(longer + "\x01") == FrameState::kMalformed);
  }
  CHECK(frame_state(record(kGetValues, huge, 0)) == FrameState::kMalformed);
}

TEST_CASE("Management records may precede a request, but not many", "[framing]") {
  const std::string values = record(kGetValues, name_value("FCGI_MAX_CONNS", ""), 0);
  CHECK(frame_state(values) == FrameState::kIncomplete);
  CHECK(frame_state(values + get_request("/")) == FrameState::kComplete);
  std::string many;
  for (int i = 0; i < 100; ++i) many += values;
  CHECK(frame_state(many + get_request("/")) == FrameState::kMalformed);
}

TEST_CASE("Limits apply to the sizes in headers, before the bytes arrive", "[framing]") {
  const FrameLimits limits{.max_params_bytes = 100, .max_body_bytes = 100};
  const std::string params = begin_request() + record(kParams, std::string(101, 'a'));
  CHECK(frame_state(params, limits) == FrameState::kTooLarge);
  CHECK(frame_state(params.substr(0, 24), limits) == FrameState::kTooLarge);
  const std::string body = fcgi_request({}, std::string(101, 'a'), true, 60);
  CHECK(frame_state(body, limits) == FrameState::kTooLarge);
  CHECK(frame_state(fcgi_request({}, std::string(100, 'a'), true, 60), limits) == FrameState::kComplete);
}

TEST_CASE("Random bytes and corruption never make framing read outside its input", "[framing]") {
  REQUIRE(rc::check("corruption", [] {
    std::string bytes = post_request("/api/track", "{\"articleId\":\"a\"}");
    const auto changes = *rc::gen::inRange(0, 8);
    for (int i = 0; i < changes; ++i) {
      bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
    }
    bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
    Framer framer{FrameLimits{}};
    const FrameState whole = framer.advance(bytes);
    // Feeding all bytes at once and feeding them one by one agree on whether the input is
    // incomplete.
    Framer slow{FrameLimits{}};
    FrameState last = FrameState::kIncomplete;
    for (std::size_t size = 0; size <= bytes.size() && last == FrameState::kIncomplete; ++size) {
      last = slow.advance(std::string_view(bytes).substr(0, size));
    }
    RC_ASSERT((whole == FrameState::kIncomplete) == (last == FrameState::kIncomplete));
  }));
}
