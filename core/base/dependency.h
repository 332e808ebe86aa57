// What the service can be without and still answer, less well.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace freshet {

enum class Dependency : std::uint8_t {
  kRedis,
  kItems,   // Redis lost its items, and nobody has brought them back
  kIndex,   // the search index
  kModel,   // of recommendations
  kWrites,  // room in Redis for what the public writes
};
inline constexpr std::size_t kDependencyCount = 5;

// The word in ready.require, on /health/ready and /status, in /metrics, and beside `degraded`.
inline constexpr std::array<std::string_view, kDependencyCount> kDependencyNames{"redis", "items", "index", "model",
                                                                 "writes"};
constexpr std::string_view dependency_name(Dependency dependency) { return kDependencyNames[static_cast<std::size_t>(dependency)]; }

// "index,model"
inline std::string join_dependency_names(const std::vector<Dependency>& dependencies) {
  std::string out;
  for (const Dependency each : dependencies) out.append(out.empty() ? "" : ",").append(dependency_name(each));
  return out;
}

}  // namespace freshet
