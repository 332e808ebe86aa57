// Training data in model order: the visible items sorted by id, and their interactions.
#pragma once

#include <vector>

#include "core/config/settings.h"
#include "core/model/content.h"
#include "core/training/interactions.h"
#include "core/training/train.h"

namespace freshet::training {

struct ItemTable {
  std::vector<TrainingItem> items;  // visible items by id; without text, `published` resolved
  std::vector<float> counts, decayed_counts;
  std::vector<std::vector<model::TermCount>> terms;
  Interactions interactions;
};

// Drops events of hidden or unknown items, and all but the newest max_per_reader events of each
// reader.
ItemTable build_item_table(const TrainingData& data, const TrainSettings& settings);

}  // namespace freshet::training
