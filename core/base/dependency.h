// Dependencies that the service can lose and still answer, with degraded results.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace freshet {

enum class Dependency : std::uint8_t {
  kRedis,
  kItems,   // Redis lost its items and they are not restored yet
  kIndex,   // the search index
  kModel,   // the recommendation model
  kWrites,  // free memory in Redis for writes from the public server
};
inline constexpr std::size_t kDependencyCount = 5;

// Used in ready.require, on /health/ready and /status, in /metrics, and in `degraded`.
inline constexpr std::array<std::string_view, kDependencyCount> kDependencyNames{"redis", "items", "index",
                                                                                 "model", "writes"};
constexpr std::string_view dependency_name(Dependency dependency) {
  return kDependencyNames[static_cast<std::size_t>(dependency)];
}

// "index,model"
inline std::string join_dependency_names(const std::vector<Dependency>& dependencies) {
  std::string out;
  for (const Dependency each : dependencies) out.append(out.empty() ? "" : ",").append(dependency_name(each));
  return out;
}

}  // namespace freshet
