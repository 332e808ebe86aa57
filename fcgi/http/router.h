// From method and path to a row of the route table. The table is one array of Route<Handler>, one
// row a route; what a handler is, the router does not know:
//
//   constexpr std::array kRoutes{Route{Method::kGet, "/api/hot", Zone::kPublic, 0, get_hot}, …};
//   const Router router(kRoutes);
//   const auto match = router.match(request.method, target.path(), request.zone);
//
// A path without escapes and without parameters costs one hash look-up and no allocation.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "fcgi/gateway/request.h"

namespace freshet::http {

template <class Handler>
struct Route {
  Method method;
  std::string_view path;   // a literal; "{name}" stands for one segment of at least one byte
  Zone zone;               // kPublic: served by both servers; kInternal: by the internal one only
  std::size_t body_limit;  // bytes; 0: the route takes no body
  Handler handler;
};
template <class Handler>
Route(Method, std::string_view, Zone, std::size_t, Handler) -> Route<Handler>;

inline constexpr std::size_t kMaxPathParameters = 2;

struct Match {
  enum class Outcome : std::uint8_t {
    kRoute,             // `route` and `parameters` are set
    kOptions,           // OPTIONS of a path that this server serves; `allow` is set
    kNotFound,          // 404: no such path, or only internal ones and the request is public
    kMethodNotAllowed,  // 405: `allow` is set
  };
  Outcome outcome = Outcome::kNotFound;
  std::size_t route = 0;                                   // index into the table
  bool is_public = false;                                  // the path has a public route
  std::array<std::string, kMaxPathParameters> parameters;  // in the path's order, decoded once; not yet ids
  std::string_view allow;  // for Allow: "GET, HEAD, POST"; lives as the router
};

class Router {
 public:
  // `routes`: a range of Route<…>. REQUIRES: paths begin with '/', have at most kMaxPathParameters
  // parameters.
  template <class Routes>
  explicit Router(const Routes& routes) {
    std::size_t index = 0;
    for (const auto& route : routes) add(route.method, route.path, route.zone, index++);
    build_index();
  }

  // HEAD matches where GET does. `raw_path` is split on its raw '/', then each segment is decoded
  // once, so that "%2F" belongs to its segment. Error: kInvalid, "bad_target" (a bad escape).
  Result<Match> match(Method method, std::string_view raw_path, Zone zone) const;

 private:
  static constexpr std::size_t kMethods = 7;  // of the enumeration Method
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Entry {
    std::size_t route = kNone;
    Zone zone = Zone::kPublic;
  };
  // Everything at one path.
  struct Path {
    std::string_view pattern;
    std::vector<std::string_view> segments;  // "{name}" for a parameter
    std::size_t parameter_count = 0;
    std::array<Entry, kMethods> methods;
    bool is_public = false;
    std::string allow_public, allow_internal;
  };

  void add(Method method, std::string_view pattern, Zone zone, std::size_t route);
  void build_index();
  const Path* find(std::string_view raw_path, Match& match, bool& bad_escape) const;
  static bool matches(const Path& path, std::string_view raw_path, Match& match, bool& bad_escape);

  std::vector<Path> paths_;                                     // fewer parameters first
  std::unordered_map<std::string_view, std::size_t> literals_;  // patterns without parameters → paths_
};

}  // namespace freshet::http
