// Chooses the weights of the content and cold-start relations relative to the collaborative one, on
// the validation set: for warm items, for cold ones, and for both in one list.
#pragma once

#include <array>
#include <string>

#include "core/training/columns.h"
#include "core/training/validation.h"

namespace freshet::training {

using RelationColumns = std::array<Columns, model::kRelations>;

struct BlendChoice {
  model::BlendWeights blend;
  std::string report;
};

// `columns` were fitted to validation.training, with its cold items as cold-start items. Returns
// the weights with the greatest sum of ndcg@20 among warm items, among cold items, and among all.
// REQUIRES: cases.
BlendChoice choose_blend(const Validation& validation, const RelationColumns& columns);

}  // namespace freshet::training
