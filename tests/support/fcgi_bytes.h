// Builds FastCGI records as nginx sends them and parses replies, for tests and fuzzers that talk to
// the gateway directly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace freshet::test {

enum RecordType : std::uint8_t {
  kBegin = 1,
  kAbort = 2,
  kEnd = 3,
  kParams = 4,
  kStdin = 5,
  kStdout = 6,
  kStderr = 7,
  kGetValues = 9,
  kGetValuesResult = 10,
};

inline std::string record(std::uint8_t type, std::string_view content, std::uint16_t id = 1,
                          std::uint8_t padding = 0) {
  std::string bytes;
  const auto put = [&](std::size_t value) {
    bytes.push_back(static_cast<char>(static_cast<std::uint8_t>(value)));
  };
  put(1);
  put(type);
  put(id >> 8U);
  put(id & 255U);
  put(content.size() >> 8);
  put(content.size() & 255);
  put(padding);
  put(0);
  return bytes.append(content).append(padding, '\0');
}

inline std::string begin_request(bool keep = true, std::uint16_t role = 1) {
  std::string body(8, '\0');
  body[1] = static_cast<char>(role);
  body[2] = keep ? 1 : 0;
  return record(kBegin, body);
}

using Params = std::vector<std::pair<std::string, std::string>>;

inline std::string name_value(std::string_view name, std::string_view value) {
  std::string bytes;
  for (const std::size_t size : {name.size(), value.size()}) {
    if (size < 128) {
      bytes.push_back(static_cast<char>(size));
    } else {
      for (int shift = 24; shift >= 0; shift -= 8) {
        bytes.push_back(static_cast<char>((size >> shift | (shift == 24 ? 0x80U : 0U)) & 255U));
      }
    }
  }
  return bytes.append(name).append(value);
}

// Splits a stream into records of at most `chunk` bytes and adds the empty record that ends it.
inline std::string stream(std::uint8_t type, std::string_view bytes, std::size_t chunk = 32768) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += chunk) out += record(type, bytes.substr(at, chunk));
  return out + record(type, {});
}

inline std::string fcgi_request(const Params& params, std::string_view body = {}, bool keep = true,
                                std::size_t chunk = 32768) {
  std::string encoded;
  for (const auto& [name, value] : params) encoded += name_value(name, value);
  return begin_request(keep) + stream(kParams, encoded) + stream(kStdin, body, chunk);
}

inline std::string post_request(std::string_view uri, std::string_view body, Params extra = {},
                                bool keep = true) {
  Params params{{"REQUEST_METHOD", "POST"},
                {"REQUEST_URI", std::string(uri)},
                {"CONTENT_TYPE", "application/json"},
                {"CONTENT_LENGTH", std::to_string(body.size())}};
  params.insert(params.end(), extra.begin(), extra.end());
  return fcgi_request(params, body, keep);
}

inline std::string get_request(std::string_view uri, bool keep = true) {
  return fcgi_request({{"REQUEST_METHOD", "GET"}, {"REQUEST_URI", std::string(uri)}, {"CONTENT_LENGTH", ""}},
                      {}, keep);
}

// The first complete reply in `bytes`: its STDOUT, and the number of bytes it took; 0 if none is
// complete yet.
struct Reply {
  std::string out;
  std::size_t bytes = 0;
};
inline Reply parse_reply(std::string_view bytes) {
  Reply reply;
  std::size_t at = 0;
  while (bytes.size() - at >= 8) {
    const auto b = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[at + i]); };
    const std::size_t content = static_cast<std::size_t>(b(4)) << 8 | b(5);
    const std::size_t record_size = 8 + content + b(6);
    if (bytes.size() - at < record_size) break;
    if (b(1) == kStdout) reply.out.append(bytes.substr(at + 8, content));
    at += record_size;
    if (static_cast<std::uint8_t>(bytes[at - record_size + 1]) == kEnd) {
      reply.bytes = at;
      return reply;
    }
  }
  return {};
}

}  // namespace freshet::test
