#include "fcgi/http/router.h"

#include <algorithm>

#include "fcgi/http/target.h"

namespace freshet::http {
namespace {

std::size_t index_of(Method method) { return static_cast<std::size_t>(method); }

bool is_parameter(std::string_view segment) { return segment.starts_with('{'); }

// Removes the first segment, up to the next '/', from `rest`, which begins with '/'.
std::string_view pop_segment(std::string_view& rest) {
  rest.remove_prefix(1);
  const std::string_view segment = rest.substr(0, rest.find('/'));
  rest.remove_prefix(segment.size());
  return segment;
}

}  // namespace

void Router::add(Method method, std::string_view pattern, Zone zone, std::size_t route) {
  auto path = std::ranges::find(paths_, pattern, &Path::pattern);
  if (path == paths_.end()) {
    path = paths_.insert(path, Path{.pattern = pattern});
    for (std::string_view rest = pattern; !rest.empty();) path->segments.push_back(pop_segment(rest));
    path->parameter_count = static_cast<std::size_t>(std::ranges::count_if(path->segments, is_parameter));
  }
  path->methods[index_of(method)] = {route, zone};
}

void Router::build_index() {
  // Literal segments take precedence over parameters: /api/items/new before /api/items/{id}.
  std::ranges::stable_sort(paths_, {}, &Path::parameter_count);
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    if (path.parameter_count == 0) literals_.emplace(path.pattern, i);
    Entry& head = path.methods[index_of(Method::kHead)];
    if (head.route == kNone) head = path.methods[index_of(Method::kGet)];
    for (const Entry& entry : path.methods) {
      path.is_public = path.is_public || (entry.route != kNone && entry.zone == Zone::kPublic);
    }
    for (std::size_t method = 0; method < index_of(Method::kOther); ++method) {
      const Entry& entry = path.methods[method];
      if (entry.route == kNone && method != index_of(Method::kOptions)) continue;
      const auto append = [&](std::string& list) {
        list.append(list.empty() ? "" : ", ").append(kMethodNames[method]);
      };
      append(path.allow_internal);
      if (entry.route == kNone || entry.zone == Zone::kPublic) append(path.allow_public);
    }
  }
}

bool Router::matches(const Path& path, std::string_view raw_path, Match& match, bool& bad_escape) {
  std::size_t parameters = 0;
  std::string_view rest = raw_path;
  for (const std::string_view expected : path.segments) {
    if (rest.empty()) return false;
    const std::string_view raw = pop_segment(rest);
    const bool escaped = raw.find('%') != std::string_view::npos;
    if (!escaped && !is_parameter(expected)) {
      if (raw != expected) return false;
      continue;
    }
    if (raw.empty()) return false;
    auto decoded = percent_decode(raw);
    if (!decoded) {
      bad_escape = true;
      return false;
    }
    if (is_parameter(expected)) {
      match.parameters[parameters++] = std::move(*decoded);
    } else if (*decoded != expected) {
      return false;
    }
  }
  return rest.empty();
}

const Router::Path* Router::find(std::string_view raw_path, Match& match, bool& bad_escape) const {
  if (const auto literal = literals_.find(raw_path); literal != literals_.end())
    return &paths_[literal->second];
  for (const Path& path : paths_) {
    if (matches(path, raw_path, match, bad_escape)) return &path;
  }
  return nullptr;
}

Result<Match> Router::match(Method method, std::string_view raw_path, Zone zone) const {
  Match match;
  bool bad_escape = false;
  const Path* path = raw_path.starts_with('/') ? find(raw_path, match, bad_escape) : nullptr;
  if (path == nullptr && bad_escape) {
    return fail(ErrorCode::kInvalid, "bad_target", {}, "a '%' is not followed by two hexadecimal digits");
  }
  // Internal paths do not exist on the public server: 404, not 403.
  if (path == nullptr || (zone == Zone::kPublic && !path->is_public)) return match;

  match.is_public = path->is_public;
  match.allow = zone == Zone::kPublic ? path->allow_public : path->allow_internal;
  const Entry& entry = path->methods[index_of(method)];
  if (entry.route != kNone && (zone == Zone::kInternal || entry.zone == Zone::kPublic)) {
    match.outcome = Match::Outcome::kRoute;
    match.route = entry.route;
  } else {
    match.outcome = method == Method::kOptions ? Match::Outcome::kOptions : Match::Outcome::kMethodNotAllowed;
  }
  return match;
}

}  // namespace freshet::http
