#include "fcgi/gateway/codec.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "tests/support/fcgi_bytes.h"

using namespace freshet;
using namespace freshet::test;
using gateway::Codec;

TEST_CASE("libfcgi decodes a request from memory", "[codec]") {
  Codec codec;
  Request request;
  std::string wire;
  const std::string body = "{\"articleId\":\"7\"}";
  const auto decoded = codec.decode(
      post_request(
          "/api/track?x=%20", body,
          {{"FRESHET_ZONE", "internal"}, {"REMOTE_ADDR", "192.0.2.1"}, {"HTTP_USER_AGENT", "Mozilla/5.0"}}),
      request, wire);
  REQUIRE(decoded);
  CHECK(request.method == Method::kPost);
  CHECK(request.uri == "/api/track?x=%20");
  CHECK(request.zone == Zone::kInternal);
  CHECK(request.remote_addr == "192.0.2.1");
  CHECK(request.user_agent == "Mozilla/5.0");
  CHECK(request.body == body);
  CHECK(wire.empty());
}

TEST_CASE("Any zone other than internal is public", "[codec]") {
  for (const char* zone : {"", "Internal", "internal ", "public", "0"}) {
    Codec codec;
    Request request;
    std::string wire;
    REQUIRE(codec.decode(fcgi_request({{"REQUEST_METHOD", "GET"}, {"FRESHET_ZONE", zone}}), request, wire));
    CHECK(request.zone == Zone::kPublic);
  }
}

TEST_CASE("A body that is not CONTENT_LENGTH bytes is rejected before it has any effect", "[codec]") {
  for (const char* length : {"3", "18", "-1", "x", "999999999999999999999", "17 "}) {
    Codec codec;
    Request request;
    std::string wire;
    CAPTURE(length);
    CHECK_FALSE(
        codec.decode(fcgi_request({{"CONTENT_LENGTH", length}}, "{\"articleId\":\"7\"}"), request, wire));
  }
}

TEST_CASE("Params with false lengths are rejected, and the codec stays usable", "[codec]") {
  Codec codec;
  Request request;
  std::string wire;
  const std::string false_length(
      "\x7f\x7f"
      "ab",
      4);
  CHECK_FALSE(
      codec.decode(begin_request() + stream(kParams, false_length) + stream(kStdin, {}), request, wire));
  const std::string huge(
      "\xff\xff\xff\xff\xff\xff\xff\xff"
      "ab",
      10);
  CHECK_FALSE(codec.decode(begin_request() + stream(kParams, huge) + stream(kStdin, {}), request, wire));
  Request valid;
  REQUIRE(codec.decode(get_request("/ping"), valid, wire));
  CHECK(valid.uri == "/ping");
}

TEST_CASE("One codec encodes many replies as FastCGI records", "[codec]") {
  Codec codec;
  for (int i = 0; i < 3; ++i) {
    Request request;
    std::string wire;
    REQUIRE(codec.decode(get_request("/"), request, wire));
    Response response;
    response.body = std::string(200000, 'x');
    codec.encode(request, response, wire);
    const auto reply = parse_reply(wire);
    CHECK(reply.bytes == wire.size());
    CHECK(reply.out.starts_with(
        "Status: 200 OK\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\nxxx"));
    CHECK(reply.out.size() == reply.out.find("\r\n\r\n") + 4 + 200000);
  }
}

TEST_CASE("HEAD and 304 have no body", "[codec]") {
  Codec codec;
  Request request;
  std::string wire;
  REQUIRE(codec.decode(fcgi_request({{"REQUEST_METHOD", "HEAD"}}), request, wire));
  Response response;
  response.body = "four";
  codec.encode(request, response, wire);
  CHECK(parse_reply(wire).out.ends_with("Content-Length: 4\r\n\r\n"));

  wire.clear();
  Request second;
  REQUIRE(codec.decode(get_request("/"), second, wire));
  response.status = 304;
  codec.encode(second, response, wire);
  CHECK(parse_reply(wire).out == "Status: 304 Not Modified\r\n\r\n");
}

TEST_CASE("libfcgi answers GET_VALUES before the reply", "[codec]") {
  Codec codec;
  Request request;
  std::string wire;
  const std::string values = record(kGetValues, name_value("FCGI_MPXS_CONNS", ""), 0);
  REQUIRE(codec.decode(values + get_request("/"), request, wire));
  REQUIRE(wire.size() > 8);
  CHECK(wire[1] == kGetValuesResult);
  CHECK(wire.find("FCGI_MPXS_CONNS") != std::string::npos);
}
