// FastCGI framing: finds where a request ends in a byte stream, and whether it is acceptable. Pure;
// no socket, no libfcgi.
//
// A request is BEGIN_REQUEST (role responder), PARAMS… and an empty PARAMS, STDIN… and an empty
// STDIN, all with the same id ≠ 0. Management records (GET_VALUES, id 0) may precede it. Everything
// else is rejected: another version, role, id or order, an abort, a NUL in a parameter, bytes after
// the request (nginx does not pipeline), sizes above the limits. A complete request is decoded by
// libfcgi (codec.h), which then never waits for more bytes.
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
  kIncomplete,  // a valid prefix (or nothing yet): wait for more bytes
  kComplete,    // exactly one request, ready to decode
  kMalformed,   // not an acceptable request: close the connection
  kTooLarge,    // above a limit: close the connection
};

// Checks the name-value pairs of a stream across its records, so that no announced length exceeds
// the limit: libfcgi would allocate it.
class ParamValidator {
 public:
  // False if a pair announces more than `limit` bytes, or has a NUL in its name or value, where
  // libfcgi's C strings would end. O(bytes).
  bool feed(std::string_view content, std::size_t limit);
  // True at the end of a pair, where the stream may end.
  bool is_complete() const { return length_bytes_ == 0 && remaining_ == 0; }

 private:
  // length bytes of the current pair's name and value; one or four bytes each
  std::array<std::uint8_t, 8> lengths_{};
  std::size_t length_bytes_ = 0;
  std::size_t remaining_ = 0;  // bytes of name and value yet to come
};

class Framer {
 public:
  explicit Framer(const FrameLimits& limits) : limits_(limits) {}
  // `bytes` is everything received of this request so far; only records that arrived since the last
  // call are parsed. O(new records).
  FrameState advance(std::string_view bytes);
  // After kComplete: discards the request.
  void reset() { *this = Framer(limits_); }
  // For a complete request: the size of its STDIN, and whether the peer asked to keep the
  // connection.
  std::size_t body_bytes() const { return body_bytes_; }
  bool keep_connection() const { return keep_connection_; }

 private:
  enum class Section : std::uint8_t { kBegin, kParams, kStdin, kDone };
  struct Record;
  FrameState accept_record(const Record& record);
  FrameState accept_begin(const Record& record);

  FrameLimits limits_;
  Section section_ = Section::kBegin;
  std::size_t offset_ = 0;  // start of the first record not yet parsed
  ParamValidator param_validator_;
  std::size_t params_bytes_ = 0;
  std::size_t body_bytes_ = 0;
  std::uint16_t id_ = 0;
  bool keep_connection_ = false;
};

}  // namespace freshet::gateway
