// Training data as the model orders it: the items that are shown, by id; who touched which of them.
#pragma once

#include <vector>

#include "core/config/settings.h"
#include "core/model/content.h"
#include "core/training/interactions.h"
#include "core/training/train.h"

namespace freshet::training {

struct ItemTable {
  std::vector<TrainingItem> items;  // shown, by id; text left out, published resolved
  std::vector<float> counts, decayed_counts;
  std::vector<std::vector<model::TermCount>> terms;
  Interactions interactions;
};

// Events of hidden or unknown items are left out; of a reader the newest max_per_reader count.
ItemTable build_item_table(const TrainingData& data, const TrainSettings& settings);

}  // namespace freshet::training
