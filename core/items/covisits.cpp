#include "core/items/covisits.h"

#include <fmt/format.h>

#include <iterator>

#include "core/redis/fields.h"

namespace freshet::items {

std::string encode_covisits(std::span<const Covisit> covisits) {
  std::string out;
  for (const Covisit& each : covisits)
    fmt::format_to(std::back_inserter(out), "{}{}{}{:.4f}", out.empty() ? "" : "\x1f", each.next.view(),
                   kIdSeparator, each.recent);
  return out;
}

std::vector<Covisit> parse_covisits(std::string_view text) {
  const auto words = redis::split_words(text, kIdSeparator);
  std::vector<Covisit> out;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const auto recent = redis::parse<double>(words[i + 1]);
    auto next = ItemId::parse(words[i], "next");
    if (recent && std::isfinite(*recent) && next) out.push_back({std::move(*next), *recent});
  }
  return out;
}

}  // namespace freshet::items
