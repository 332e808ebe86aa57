#include "fcgi/gateway/framing.h"

#include <fastcgi.h>

#include <algorithm>

namespace freshet::gateway {

namespace {

constexpr std::size_t kMaxManagementBytes = 1024;

std::uint8_t byte(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }

std::uint16_t two_bytes(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(byte(bytes, at) << 8 | byte(bytes, at + 1));
}

}  // namespace

bool PairWalker::feed(std::string_view content, std::size_t limit) {
  const auto width = [this](std::size_t at) -> std::size_t { return (lengths_[at] & 0x80U) != 0 ? 4 : 1; };
  const auto length = [&](std::size_t at) {
    std::size_t value = lengths_[at] & 0x7fU;
    for (std::size_t i = 1; i < width(at); ++i) value = value << 8 | lengths_[at + i];
    return value;
  };
  while (!content.empty()) {
    if (skip_ > 0) {
      const std::size_t step = std::min(skip_, content.size());
      if (content.substr(0, step).find('\0') != std::string_view::npos) return false;
      skip_ -= step;
      content.remove_prefix(step);
      continue;
    }
    lengths_[have_++] = byte(content, 0);
    content.remove_prefix(1);
    const std::size_t second = width(0);
    if (have_ <= second || have_ < second + width(second)) continue;
    skip_ = length(0) + length(second);
    have_ = 0;
    if (skip_ > limit) return false;
  }
  return true;
}

struct Framer::Record {
  std::uint8_t type;
  std::uint16_t id;
  std::string_view content;
};

FrameState Framer::advance(std::string_view bytes) {
  while (stage_ != Stage::kDone) {
    if (bytes.size() - offset_ < FCGI_HEADER_LEN) {
      return bytes.size() > offset_ && byte(bytes, offset_) != FCGI_VERSION_1 ? FrameState::kBad
                                                                              : FrameState::kMore;
    }
    const std::string_view header = bytes.substr(offset_, FCGI_HEADER_LEN);
    if (byte(header, 0) != FCGI_VERSION_1) return FrameState::kBad;
    const std::size_t content = two_bytes(header, 4);
    const std::size_t padding = byte(header, 6);
    // libfcgi takes padding behind a BEGIN_REQUEST or behind the empty record that ends a stream
    // for the next header, and leaks what it then makes of it (found by the fuzzer). nginx pads
    // neither.
    if (padding != 0 && (stage_ == Stage::kBegin || content == 0)) return FrameState::kBad;
    // Sizes are judged by the header, before the bytes they announce are waited for.
    const bool whole = bytes.size() - offset_ - FCGI_HEADER_LEN >= content + padding;
    const Record record{byte(header, 1), two_bytes(header, 2),
                        bytes.substr(offset_ + FCGI_HEADER_LEN, whole ? content : 0)};
    if (!whole) {
      const bool begin = stage_ == Stage::kBegin && record.id != FCGI_NULL_REQUEST_ID;
      if (begin && (record.type != FCGI_BEGIN_REQUEST || content != sizeof(FCGI_BeginRequestBody)))
        return FrameState::kBad;
      const bool large = (stage_ == Stage::kParams && params_bytes_ + content > limits_.max_params_bytes) ||
                         (stage_ == Stage::kStdin && body_bytes_ + content > limits_.max_body_bytes);
      return large ? FrameState::kTooLarge : FrameState::kMore;
    }
    if (const FrameState state = take(record); state != FrameState::kMore) return state;
    offset_ += FCGI_HEADER_LEN + content + padding;
  }
  return offset_ == bytes.size() ? FrameState::kWhole : FrameState::kBad;
}

FrameState Framer::take(const Record& record) {
  if (stage_ == Stage::kBegin) return take_begin(record);
  if (record.id != id_) return FrameState::kBad;
  if (stage_ == Stage::kParams) {
    if (record.type != FCGI_PARAMS) return FrameState::kBad;
    params_bytes_ += record.content.size();
    if (params_bytes_ > limits_.max_params_bytes) return FrameState::kTooLarge;
    if (!pairs_.feed(record.content, limits_.max_params_bytes)) return FrameState::kBad;
    if (record.content.empty()) {
      if (!pairs_.complete()) return FrameState::kBad;
      stage_ = Stage::kStdin;
    }
    return FrameState::kMore;
  }
  if (record.type != FCGI_STDIN) return FrameState::kBad;
  if (record.content.empty()) stage_ = Stage::kDone;
  body_bytes_ += record.content.size();
  return body_bytes_ > limits_.max_body_bytes ? FrameState::kTooLarge : FrameState::kMore;
}

FrameState Framer::take_begin(const Record& record) {
  if (record.id == FCGI_NULL_REQUEST_ID) {
    const bool fits = offset_ + record.content.size() <= kMaxManagementBytes;
    PairWalker values;
    if (!values.feed(record.content, kMaxManagementBytes) || !values.complete()) return FrameState::kBad;
    return record.type == FCGI_GET_VALUES && fits ? FrameState::kMore : FrameState::kBad;
  }
  if (record.type != FCGI_BEGIN_REQUEST || record.content.size() != sizeof(FCGI_BeginRequestBody))
    return FrameState::kBad;
  if (two_bytes(record.content, 0) != FCGI_RESPONDER) return FrameState::kBad;
  keep_connection_ = (byte(record.content, 2) & FCGI_KEEP_CONN) != 0;
  id_ = record.id;
  stage_ = Stage::kParams;
  return FrameState::kMore;
}

}  // namespace freshet::gateway
