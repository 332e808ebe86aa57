// libFuzzer: no bytes on a FastCGI connection crash the framing or libfcgi, framing does not depend
// on how the bytes are split, and every decoded request can be answered.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "fcgi/gateway/codec.h"
#include "fcgi/gateway/framing.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::require;
using gateway::Codec;
using gateway::Framer;
using gateway::FrameState;

// `piece`: bytes per read.
FrameState frame_in_pieces(std::string_view bytes, std::size_t piece) {
  Framer framer{gateway::FrameLimits{}};
  FrameState state = FrameState::kIncomplete;
  for (std::size_t have = piece; state == FrameState::kIncomplete; have += piece) {
    state = framer.advance(bytes.substr(0, std::min(have, bytes.size())));
    if (have >= bytes.size()) break;
  }
  return state;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t piece = 1 + data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Framer framer{gateway::FrameLimits{}};
  const FrameState state = framer.advance(bytes);
  require((frame_in_pieces(bytes, piece) == FrameState::kIncomplete) == (state == FrameState::kIncomplete));
  if (state != FrameState::kComplete) return 0;
  static Codec codec;
  Request request;
  std::string wire;
  if (!codec.decode(bytes, request, wire)) return 0;
  Response response;
  response.body = request.body;
  codec.encode(request, response, wire);
  require(!wire.empty());
  return 0;
}
