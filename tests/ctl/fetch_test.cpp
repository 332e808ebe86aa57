#include "scripts/ctl/http/fetch.h"

#include <zlib.h>

#include <boost/asio.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <thread>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::ctl;
using freshet::test::error_of;
namespace asio = boost::asio;

namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, 0);
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string reply(const std::string& status, const std::string& headers, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Answers the request for each path with a text, and closes the connection.
class Server {
 public:
  explicit Server(std::map<std::string, std::string> replies)
      : replies_(std::move(replies)),
        acceptor_(io_, {asio::ip::address_v4::loopback(), 0}),
        thread_([this] { run(); }) {}
  ~Server() {
    stopping_ = true;
    asio::ip::tcp::socket wake(io_);
    boost::system::error_code ignored;
    wake.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  std::string url(const std::string& path, const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(acceptor_.local_endpoint().port()) + path;
  }
  std::string last_request;
  int requests = 0;

 private:
  void run() {
    while (true) {
      asio::ip::tcp::socket peer(io_);
      boost::system::error_code error;
      acceptor_.accept(peer, error);
      if (stopping_) return;
      std::string request;
      asio::read_until(peer, asio::dynamic_buffer(request), "\r\n\r\n", error);
      if (error) continue;
      ++requests;
      last_request = request;
      const std::string path = request.substr(4, request.find(' ', 4) - 4);
      const auto found = replies_.find(path);
      asio::write(peer,
                  asio::buffer(found == replies_.end() ? reply("404 Not Found", "", "") : found->second),
                  error);
      peer.shutdown(asio::ip::tcp::socket::shutdown_both, error);
    }
  }

  const std::map<std::string, std::string> replies_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

std::string redirect(const std::string& to) { return reply("302 Found", "Location: " + to + "\r\n", ""); }

std::string why(const Server& server, const std::string& path, FetchOptions options = {}) {
  const Error error = error_of(Fetcher(std::move(options)).fetch(server.url(path), {}));
  CHECK(error.reason == "not_fetched");
  const std::size_t after_url = error.detail.find(": ", 8);
  return after_url == std::string::npos ? error.detail : error.detail.substr(after_url + 2);
}

}  // namespace

TEST_CASE("a document is fetched through redirects, with what validates it", "[import]") {
  Server server(
      {{"/feed", redirect("/moved/")},
       {"/moved/", redirect("feed.xml")},
       {"/moved/feed.xml",
        reply("200 OK", "ETag: \"v1\"\r\nLast-Modified: Thu, 26 Nov 2026 10:00:00 GMT\r\n", "<rss/>")}});
  const auto got = Fetcher({}).fetch(server.url("/feed"), {});
  REQUIRE(got);
  CHECK(got->body == "<rss/>");
  CHECK_FALSE(got->unchanged);
  CHECK(got->url == server.url("/moved/feed.xml"));
  CHECK(got->validators == Validators{"\"v1\"", "Thu, 26 Nov 2026 10:00:00 GMT"});
}

TEST_CASE("a document may have trailers and an interim reply", "[import]") {
  Server server({{"/",
                  "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "5\r\n<rss>\r\n0\r\nX-Checksum: 1\r\n\r\n"},
                 {"/cut", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Enc"}});
  const auto got = Fetcher({}).fetch(server.url("/"), {});
  REQUIRE(got);
  CHECK(got->body == "<rss>");
  CHECK(why(server, "/cut") == "the answer was cut short");
}

TEST_CASE("a document is asked for conditionally", "[import]") {
  Server server({{"/", reply("304 Not Modified", "", "")}});
  const auto got = Fetcher({}).fetch(server.url("/"), {"\"v1\"", "Thu, 26 Nov 2026 10:00:00 GMT"});
  REQUIRE(got);
  CHECK(got->unchanged);
  CHECK(server.last_request.find("If-None-Match: \"v1\"\r\n") != std::string::npos);
  CHECK(server.last_request.find("If-Modified-Since: Thu, 26 Nov 2026 10:00:00 GMT\r\n") !=
        std::string::npos);
  CHECK(why(server, "/") == "the server returned 304");  // to an unconditional request
}

TEST_CASE("compressed documents are unpacked, and both sizes bounded", "[import]") {
  const std::string text(100'000, 'x'), packed = gzip(text);
  Server server({{"/encoded", reply("200 OK", "Content-Encoding: gzip\r\n", packed)},
                 {"/sitemap.xml.gz", reply("200 OK", "", packed)},
                 {"/plain", reply("200 OK", "", text)},
                 {"/endless", "HTTP/1.1 200 OK\r\n\r\n" + text},
                 {"/cut.gz", reply("200 OK", "", packed.substr(0, packed.size() / 2))},
                 {"/damaged", reply("200 OK", "Content-Encoding: gzip\r\n", "no gzip data")}});
  for (const char* path : {"/encoded", "/sitemap.xml.gz", "/plain"}) {
    CAPTURE(path);
    const auto got = Fetcher({}).fetch(server.url(path), {});
    REQUIRE(got);
    CHECK(got->body == text);
    FetchOptions exact;
    exact.max_bytes = text.size();
    CHECK(Fetcher(exact).fetch(server.url(path), {}));
  }
  FetchOptions small;
  small.max_bytes = text.size() - 1;
  for (const char* path : {"/encoded", "/sitemap.xml.gz", "/plain", "/endless"}) {
    CAPTURE(path);
    CHECK(why(server, path, small) == "larger than 99999 bytes; --max-bytes allows more");
  }
  CHECK(why(server, "/cut.gz") == "the compressed data is damaged or cut short");
  CHECK(why(server, "/damaged") == "the compressed answer is damaged");
}

TEST_CASE("all members of compressed data are unpacked, up to the limit", "[import]") {
  const std::string first(1000, 'a'), second(1000, 'b'), both = gzip(first) + gzip(second);
  CHECK(unpack_gzip(both, 2000) == first + second);
  CHECK(unpack_gzip(both + std::string(512, '\0'), 2000) == first + second);  // padded
  CHECK(error_of(unpack_gzip(both, 1999)).reason == "too_large");
  CHECK(error_of(unpack_gzip(both + "more", 9999)).reason == "bad_gzip");
  CHECK(error_of(unpack_gzip(both.substr(0, both.size() - 1), 9999)).reason == "bad_gzip");
}

TEST_CASE("credentials go to their origin only and are not shown", "[import]") {
  for (const auto& [url, plain] :
       std::map<std::string, std::string>{{"https://u:p@example.org/a?b=@", "https://example.org/a?b=@"},
                                          {"http://u:p@a@example.org", "http://example.org"},
                                          {"http:///u@example.org/a", "http:///example.org/a"},
                                          {"https://example.org/@a", "https://example.org/@a"},
                                          {"https://example.org#@", "https://example.org#@"},
                                          {"/a@b", "/a@b"},
                                          {"https://", "https://"}}) {
    CAPTURE(url);
    CHECK(without_credentials(url) == plain);
  }
  Server other({{"/b", reply("200 OK", "", "x")}});
  Server server(
      {{"/a", redirect("/b")}, {"/b", reply("200 OK", "", "x")}, {"/away", redirect(other.url("/b"))}});
  FetchOptions options;
  options.credentials = server.url("/a", "u:secret@127.0.0.1");
  Fetcher fetcher(options);
  const std::string header = "Authorization: Basic dTpzZWNyZXQ=\r\n";
  for (const std::string& url : {server.url("/a"), server.url("/b"), options.credentials}) {
    const auto got = fetcher.fetch(url, {});
    REQUIRE(got);
    CHECK(got->url == server.url("/b"));
    CHECK(server.last_request.find(header) != std::string::npos);
  }
  CHECK(fetcher.fetch(server.url("/away"), {}));
  CHECK(other.last_request.find("Authorization") == std::string::npos);
  CHECK(error_of(fetcher.fetch(server.url("/none", "u:secret@127.0.0.1"), {})).detail ==
        server.url("/none") + ": there is nothing at this address (404)");
}

TEST_CASE("each failure is one sentence", "[import]") {
  std::map<std::string, std::string> replies{{"/loop", redirect("/loop2")},
                                             {"/loop2", redirect("/loop")},
                                             {"/file", redirect("file:///etc/passwd")},
                                             {"/500", reply("503 Service Unavailable", "", "")},
                                             {"/403", reply("403 Forbidden", "", "")},
                                             {"/cut", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n<rss>"},
                                             {"/cut-header", "HTTP/1.1 200 OK\r\nContent-Le"},
                                             {"/silent", ""}};
  for (int i = 0; i < 7; ++i) replies["/" + std::to_string(i)] = redirect("/" + std::to_string(i + 1));
  Server server(std::move(replies));
  CHECK(why(server, "/404") == "there is nothing at this address (404)");
  CHECK(why(server, "/500") == "the server has an error (503)");
  CHECK(why(server, "/403") == "the server denies access (403)");
  CHECK(why(server, "/loop") == "redirects in a loop");
  CHECK(why(server, "/0") == "more than 5 redirects");
  CHECK(why(server, "/file") == "not an http or https URL");
  for (const char* path : {"/cut", "/cut-header", "/silent"}) {
    CAPTURE(path);
    CHECK(why(server, path) == "the answer was cut short");
  }
  const auto refused = error_of(Fetcher({}).fetch("http://127.0.0.1:1/", {}));
  CHECK(refused.detail == "http://127.0.0.1:1/: Connection refused");
}

TEST_CASE("a server that does not answer is given up", "[import]") {
  asio::io_context io;
  asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
  FetchOptions impatient;
  impatient.timeout = milliseconds(100);
  const std::string url = "http://127.0.0.1:" + std::to_string(silent.local_endpoint().port()) + "/";
  CHECK(error_of(Fetcher(impatient).fetch(url, {})).detail == url + ": no complete answer in time");
}

TEST_CASE("addresses that are not public are refused unless the host is named", "[import]") {
  Server server({{"/", reply("200 OK", "", "x")}});
  FetchOptions options;
  options.public_only = true;
  CHECK(why(server, "/", options) ==
        "127.0.0.1 has the address 127.0.0.1, which is not public; name the host in `hosts` to allow it");
  for (const char* address :
       {"10.0.0.1", "169.254.169.254", "192.168.1.1", "172.16.0.1", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "[::1]", "[fe80::1]", "[fc00::1]", "[ff02::1]", "[::ffff:127.0.0.1]",
        "[::ffff:10.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "2130706433", "0x7f.1", "localhost"}) {
    CAPTURE(address);
    const auto refused = error_of(Fetcher(options).fetch(std::string("http://") + address + ":1/", {}));
    CHECK(refused.detail.find("which is not public") != std::string::npos);
  }
  CHECK(server.requests == 0);
  options.allowed_hosts = {"127.0.0.1", "LocalHost"};
  CHECK(Fetcher(options).fetch(server.url("/"), {}));
  CHECK(Fetcher(options).fetch(server.url("/", "localHOST"), {}));
}

TEST_CASE("a redirect to an address that is not public is refused", "[import]") {
  Server inner({{"/secret", reply("200 OK", "", "secret")}});
  Server outer({{"/", redirect(inner.url("/secret", "localhost"))}});
  FetchOptions options;
  options.public_only = true;
  options.allowed_hosts = {"127.0.0.1"};
  const auto refused = error_of(Fetcher(options).fetch(outer.url("/"), {}));
  CHECK(refused.detail.find("localhost has the address") != std::string::npos);
  CHECK(inner.requests == 0);
}
