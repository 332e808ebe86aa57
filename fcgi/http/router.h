// Maps a method and a path to a row of the route table. The table is one array of Route<Handler>;
// the router does not depend on the type of handlers:
//
//   constexpr std::array kRoutes{Route{Method::kGet, "/api/hot", Zone::kPublic, 0, get_hot}, …};
//   const Router router(kRoutes);
//   const auto match = router.match(request.method, target.path(), request.zone);
//
// A path without escapes and parameters costs one hash lookup and no allocation.
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
  std::string_view path;   // a literal; "{name}" matches one segment of at least one byte
  Zone zone;               // kPublic: on both servers; kInternal: only on the internal one
  std::size_t body_limit;  // bytes; 0: the route takes no body
  Handler handler;
  std::string_view parameters = {};  // known query parameters, separated by spaces
  std::string_view members = {};     // the same for the members of a JSON object as body
};
template <class Handler>
Route(Method, std::string_view, Zone, std::size_t, Handler, std::string_view = {}, std::string_view = {})
    -> Route<Handler>;

inline constexpr std::size_t kMaxPathParameters = 2;

struct Match {
  enum class Outcome : std::uint8_t {
    kRoute,             // `route` and `parameters` are set
    kOptions,           // OPTIONS on a path of this server; `allow` is set
    kNotFound,          // 404: no such path, or an internal one for a public request
    kMethodNotAllowed,  // 405: `allow` is set
  };
  Outcome outcome = Outcome::kNotFound;
  std::size_t route = 0;   // index into the table
  bool is_public = false;  // the path has a public route
  // in the order of the path, decoded once; not validated
  std::array<std::string, kMaxPathParameters> parameters;
  std::string_view allow;  // the value of Allow: "GET, HEAD, POST"; valid as long as the router
};

class Router {
 public:
  // `routes`: a range of Route<…>. REQUIRES: paths begin with '/' and have at most
  // kMaxPathParameters parameters.
  template <class Routes>
  explicit Router(const Routes& routes) {
    std::size_t index = 0;
    for (const auto& route : routes) add(route.method, route.path, route.zone, index++);
    build_index();
  }

  // HEAD matches where GET does. `raw_path` is split at its raw '/' characters, then each segment
  // is decoded once, so that "%2F" is part of its segment. Error: kInvalid, "bad_target" (a bad
  // escape).
  Result<Match> match(Method method, std::string_view raw_path, Zone zone) const;

 private:
  static constexpr std::size_t kMethods = 7;  // number of Method values
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Entry {
    std::size_t route = kNone;
    Zone zone = Zone::kPublic;
  };
  // The routes that share a path.
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

  std::vector<Path> paths_;  // fewest parameters first
  // patterns without parameters → index into paths_
  std::unordered_map<std::string_view, std::size_t> literals_;
};

}  // namespace freshet::http
