// Framing: where a FastCGI request ends in a stream of bytes, and whether it is one we accept.
// Pure; no socket, no libfcgi.
//
// A request is BEGIN_REQUEST (role responder), PARAMS… and an empty PARAMS, STDIN… and an empty
// STDIN, all with one id ≠ 0; management records (GET_VALUES, id 0) may stand before it. Everything
// else is refused: another version, role, id or order, an abort, a NUL in a parameter, bytes behind
// the request (nobody pipelines), more than the limits. What passes is decoded by libfcgi
// (codec.h), which then cannot want more bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace freshet::gateway {

struct FrameLimits {
  std::size_t max_params_bytes = 32UL * 1024;
  std::size_t max_body_bytes = 8UL * 1024 * 1024;
};

enum class FrameState : std::uint8_t {
  kIncomplete,      // a good beginning (or nothing yet): wait for more bytes
  kComplete,     // exactly one request, ready to be decoded
  kMalformed,       // not a request we accept: close the connection
  kTooLarge,  // over a limit: close the connection
};

// Follows the name-value pairs of a stream over its records, to see that no announced length lies:
// libfcgi would allocate it.
class ParamValidator {
 public:
  // False when a pair announces more than `limit` bytes, or has a NUL in its name or value, where
  // libfcgi's strings would end. O(bytes).
  bool feed(std::string_view content, std::size_t limit);
  // True at the end of a pair: a stream may end here.
  bool is_complete() const { return length_bytes_ == 0 && remaining_ == 0; }

 private:
  std::array<std::uint8_t, 8> lengths_{};  // of the pair that begins: one or four bytes each
  std::size_t length_bytes_ = 0;
  std::size_t remaining_ = 0;  // bytes of name and value still to come
};

class Framer {
 public:
  explicit Framer(const FrameLimits& limits) : limits_(limits) {}
  // `bytes` is everything received of this request so far; only what is new since the last call is
  // looked at. O(new records).
  FrameState advance(std::string_view bytes);
  // After kWhole: forget the request.
  void reset() { *this = Framer(limits_); }
  // Of a whole request: the bytes of its STDIN, and whether the peer asked to keep the connection.
  std::size_t body_bytes() const { return body_bytes_; }
  bool keep_connection() const { return keep_connection_; }

 private:
  enum class Section : std::uint8_t { kBegin, kParams, kStdin, kDone };
  struct Record;
  FrameState accept_record(const Record& record);
  FrameState accept_begin(const Record& record);

  FrameLimits limits_;
  Section section_ = Section::kBegin;
  std::size_t offset_ = 0;  // of the first record not looked at yet
  ParamValidator param_validator_;
  std::size_t params_bytes_ = 0;
  std::size_t body_bytes_ = 0;
  std::uint16_t id_ = 0;
  bool keep_connection_ = false;
};

}  // namespace freshet::gateway
