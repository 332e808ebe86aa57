#include "fcgi/gateway/framing.h"

#include <fastcgi.h>

#include <algorithm>

namespace freshet::gateway {

namespace {

constexpr std::size_t kMaxManagementBytes = 1024;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }

std::uint16_t read_u16(std::string_view bytes, std::size_t at) {
  return static_cast<std::uint16_t>(byte_at(bytes, at) << 8 | byte_at(bytes, at + 1));
}

}  // namespace

bool ParamValidator::feed(std::string_view content, std::size_t limit) {
  const auto width = [this](std::size_t at) -> std::size_t { return (lengths_[at] & 0x80U) != 0 ? 4 : 1; };
  const auto length = [&](std::size_t at) {
    std::size_t value = lengths_[at] & 0x7fU;
    for (std::size_t i = 1; i < width(at); ++i) value = value << 8 | lengths_[at + i];
    return value;
  };
  while (!content.empty()) {
    if (remaining_ > 0) {
      const std::size_t step = std::min(remaining_, content.size());
      if (content.substr(0, step).find('\0') != std::string_view::npos) return false;
      remaining_ -= step;
      content.remove_prefix(step);
      continue;
    }
    lengths_[length_bytes_++] = byte_at(content, 0);
    content.remove_prefix(1);
    const std::size_t second = width(0);
    if (length_bytes_ <= second || length_bytes_ < second + width(second)) continue;
    remaining_ = length(0) + length(second);
    length_bytes_ = 0;
    if (remaining_ > limit) return false;
  }
  return true;
}

struct Framer::Record {
  std::uint8_t type;
  std::uint16_t id;
  std::string_view content;
};

FrameState Framer::advance(std::string_view bytes) {
  while (section_ != Section::kDone) {
    if (bytes.size() - offset_ < FCGI_HEADER_LEN) {
      return bytes.size() > offset_ && byte_at(bytes, offset_) != FCGI_VERSION_1 ? FrameState::kMalformed
                                                                                 : FrameState::kIncomplete;
    }
    const std::string_view header = bytes.substr(offset_, FCGI_HEADER_LEN);
    if (byte_at(header, 0) != FCGI_VERSION_1) return FrameState::kMalformed;
    const std::size_t content = read_u16(header, 4);
    const std::size_t padding = byte_at(header, 6);
    // libfcgi mistakes padding after BEGIN_REQUEST, or after the empty record that ends a stream,
    // for the next header, and leaks what it parses from it (found by fuzzing). nginx pads neither.
    if (padding != 0 && (section_ == Section::kBegin || content == 0)) return FrameState::kMalformed;
    // Sizes are checked by the header, before waiting for the bytes that it announces.
    const bool has_whole_record = bytes.size() - offset_ - FCGI_HEADER_LEN >= content + padding;
    const Record record{byte_at(header, 1), read_u16(header, 2),
                        bytes.substr(offset_ + FCGI_HEADER_LEN, has_whole_record ? content : 0)};
    if (!has_whole_record) {
      const bool is_begin = section_ == Section::kBegin && record.id != FCGI_NULL_REQUEST_ID;
      if (is_begin && (record.type != FCGI_BEGIN_REQUEST || content != sizeof(FCGI_BeginRequestBody)))
        return FrameState::kMalformed;
      const bool is_too_large =
          (section_ == Section::kParams && params_bytes_ + content > limits_.max_params_bytes) ||
          (section_ == Section::kStdin && body_bytes_ + content > limits_.max_body_bytes);
      return is_too_large ? FrameState::kTooLarge : FrameState::kIncomplete;
    }
    if (const FrameState state = accept_record(record); state != FrameState::kIncomplete) return state;
    offset_ += FCGI_HEADER_LEN + content + padding;
  }
  return offset_ == bytes.size() ? FrameState::kComplete : FrameState::kMalformed;
}

FrameState Framer::accept_record(const Record& record) {
  if (section_ == Section::kBegin) return accept_begin(record);
  if (record.id != id_) return FrameState::kMalformed;
  if (section_ == Section::kParams) {
    if (record.type != FCGI_PARAMS) return FrameState::kMalformed;
    params_bytes_ += record.content.size();
    if (params_bytes_ > limits_.max_params_bytes) return FrameState::kTooLarge;
    if (!param_validator_.feed(record.content, limits_.max_params_bytes)) return FrameState::kMalformed;
    if (record.content.empty()) {
      if (!param_validator_.is_complete()) return FrameState::kMalformed;
      section_ = Section::kStdin;
    }
    return FrameState::kIncomplete;
  }
  if (record.type != FCGI_STDIN) return FrameState::kMalformed;
  if (record.content.empty()) section_ = Section::kDone;
  body_bytes_ += record.content.size();
  return body_bytes_ > limits_.max_body_bytes ? FrameState::kTooLarge : FrameState::kIncomplete;
}

FrameState Framer::accept_begin(const Record& record) {
  if (record.id == FCGI_NULL_REQUEST_ID) {
    const bool fits = offset_ + record.content.size() <= kMaxManagementBytes;
    ParamValidator values;
    if (!values.feed(record.content, kMaxManagementBytes) || !values.is_complete())
      return FrameState::kMalformed;
    return record.type == FCGI_GET_VALUES && fits ? FrameState::kIncomplete : FrameState::kMalformed;
  }
  if (record.type != FCGI_BEGIN_REQUEST || record.content.size() != sizeof(FCGI_BeginRequestBody))
    return FrameState::kMalformed;
  if (read_u16(record.content, 0) != FCGI_RESPONDER) return FrameState::kMalformed;
  keep_connection_ = (byte_at(record.content, 2) & FCGI_KEEP_CONN) != 0;
  id_ = record.id;
  section_ = Section::kParams;
  return FrameState::kIncomplete;
}

}  // namespace freshet::gateway
