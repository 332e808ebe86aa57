#include "core/feed/interests.h"

#include <algorithm>

#include "core/readers/reader_store.h"
#include "core/redis/fields.h"

namespace freshet::feed {
namespace {

constexpr std::size_t kMaxInterests = 20;  // recall uses no more

}  // namespace

std::vector<Interest> parse_interests(const redis::Reply& members, const InteractionSettings& settings) {
  std::vector<Interest> out;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto member = readers::interaction_member(redis::string_at(members, i));
    const double weight = member ? readers::interaction_weight(settings, member->kind) : 0;
    if (weight <= 0) continue;
    const auto known = std::find_if(out.begin(), out.end(),
                                    [&](const auto& each) { return each.item.view() == member->item; });
    if (known != out.end()) {
      if (weight > known->weight) known->interaction = member->kind;
      known->weight = std::max(known->weight, weight);
    } else if (out.size() < kMaxInterests) {
      out.push_back({ItemId::trusted(std::string(member->item)), weight, member->kind});
    }
  }
  return out;
}

}  // namespace freshet::feed
