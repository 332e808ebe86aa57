#include "core/readers/interaction.h"

#include <algorithm>
#include <cmath>

namespace freshet::readers {

std::optional<Interaction> parse_interaction(std::string_view name) {
  for (const InteractionInfo& each : kInteractions) {
    if (each.name == name) return each.interaction;
  }
  return std::nullopt;
}

std::optional<Interaction> interaction_from_letter(char letter) {
  for (const InteractionInfo& each : kInteractions) {
    if (each.letter == letter) return each.interaction;
  }
  return std::nullopt;
}

double interaction_weight(const InteractionSettings& settings, Interaction kind) {
  switch (kind) {
    case Interaction::kView:
      return settings.view_weight;
    case Interaction::kLike:
      return settings.like_weight;
    case Interaction::kShare:
      return settings.share_weight;
    case Interaction::kFavorite:
      return settings.favorite_weight;
    case Interaction::kReply:
      return settings.reply_weight;
    case Interaction::kPost:
      return settings.post_weight;
  }
  return 0;
}

double recency_weight(UnixSeconds at, UnixSeconds now, seconds half_life) {
  const double age = static_cast<double>(std::max<std::int64_t>(0, (now - at).count()));
  return std::exp2(-age / static_cast<double>(half_life.count()));
}

}  // namespace freshet::readers
