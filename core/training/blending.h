// How much content and borrowed columns count beside what readers did, chosen on validation: for
// items with a past and new ones each, and for all in one list.
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

// `parts` were fitted to validation.training; its cold items borrow. The mix with the greatest sum
// of ndcg@20 among warm items, among cold ones, and among all. REQUIRES: cases.
BlendChoice choose_blend(const Validation& validation, const RelationColumns& columns);

}  // namespace freshet::training
