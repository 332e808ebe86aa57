// What the service can be without and still answer, less well.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace freshet {

enum class Need : std::uint8_t {
  kRedis,
  kItems,   // Redis lost its items, and nobody has brought them back
  kIndex,   // the search index
  kModel,   // of recommendations
  kWrites,  // room in Redis for what the public writes
};
inline constexpr std::size_t kNeeds = 5;

// The word in ready.require, on /health/ready and /status, in /metrics, and beside `degraded`.
inline constexpr std::array<std::string_view, kNeeds> kNeedNames{"redis", "items", "index", "model",
                                                                 "writes"};
constexpr std::string_view need_name(Need need) { return kNeedNames[static_cast<std::size_t>(need)]; }

// "index,model"
inline std::string need_names(const std::vector<Need>& needs) {
  std::string out;
  for (const Need each : needs) out.append(out.empty() ? "" : ",").append(need_name(each));
  return out;
}

}  // namespace freshet
