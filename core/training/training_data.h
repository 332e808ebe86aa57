// Input of training, whatever its source (SQLite: core/training/training_source.h; the public data
// sets of the evaluation).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "core/items/ports.h"
#include "core/readers/interaction.h"

namespace freshet::training {

struct TrainingItem {
  std::string id;
  std::string title, text;
  std::string author;  // as in model::layout::Item
  std::vector<std::string> tags;
  UnixSeconds published;  // 1970: unknown, use the first event
  bool hidden = false;    // excluded from the model
  items::TextFormat text_format = items::TextFormat::kPlain;
};

struct TrainingEvent {
  std::uint32_t reader = 0;  // arbitrary numbering
  std::uint32_t item = 0;    // index into items
  readers::Interaction kind = readers::Interaction::kView;
  UnixSeconds at;
};

// Views of an item by all readers within a period, as the recorder stores them.
struct ViewCount {
  std::uint32_t item = 0;  // index into items
  UnixSeconds from;
  seconds length{0};
  std::int64_t views = 0;  // > 0
  UnixSeconds end() const { return from + length; }
};

struct TrainingData {
  std::vector<TrainingItem> items;  // distinct ids, any order
  std::vector<TrainingEvent> events;
  std::vector<ViewCount> view_counts;  // of the last days, if the site counts views; any order
  UnixSeconds now;                     // start of training; ages are relative to it
};

}  // namespace freshet::training
