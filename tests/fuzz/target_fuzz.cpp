// libFuzzer: no request target crashes the parser or the router, and parameters are decoded exactly
// once.
#include <array>
#include <string>

#include "fcgi/http/router.h"
#include "fcgi/http/target.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::require;
using http::Route;

// All shapes of paths in the service's route table.
constexpr std::array kRoutes{
    Route{Method::kGet, "/api/hot", Zone::kPublic, 0, 0},
    Route{Method::kGet, "/api/items/{id}", Zone::kInternal, 0, 1},
    Route{Method::kGet, "/api/items/{id}/similar", Zone::kPublic, 0, 2},
    Route{Method::kDelete, "/api/waterfall/{channel}/{itemId}", Zone::kPublic, 0, 3}};

std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    constexpr std::string_view kDigits = "0123456789aBcDeF";
    const auto byte = static_cast<unsigned char>(c);
    out.append({'%', kDigits[byte >> 4U], kDigits[byte & 15U]});
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const http::Router router(kRoutes);
  const std::string_view uri(reinterpret_cast<const char*>(bytes), size);
  const bool nul = uri.find('\0') != uri.npos;
  require(http::percent_decode(encoded(uri)) == (nul ? std::nullopt : std::optional(std::string(uri))));

  const auto target = http::Target::parse(uri);
  if (!target) return 0;
  require(target->path().starts_with('/'));
  require(uri.starts_with(target->path()));
  for (const std::string_view name : {"limit", "at", "id", "userId", ""}) {
    const auto value = target->parameter(name);
    if (value) require(value->find('\0') == value->npos);
    const auto number = http::integer_parameter(*target, name, 7, -5, 100);
    if (number) require(*number >= -5 && *number <= 100);
    const auto id = http::id_parameter<ItemId>(*target, name);
    if (id && !id->empty()) require(ItemId::parse(id->view(), "id").has_value());
  }
  for (const Method method :
       {Method::kGet, Method::kHead, Method::kDelete, Method::kOptions, Method::kOther}) {
    for (const Zone zone : {Zone::kPublic, Zone::kInternal}) {
      const auto match = router.match(method, target->path(), zone);
      if (!match || match->outcome != http::Match::Outcome::kRoute) continue;
      require(match->route < kRoutes.size());
      require(zone == Zone::kInternal || kRoutes[match->route].zone == Zone::kPublic);
      if (kRoutes[match->route].path.find('{') != std::string_view::npos)
        require(!match->parameters[0].empty() && match->parameters[0].find('\0') == std::string::npos);
    }
  }
  return 0;
}
