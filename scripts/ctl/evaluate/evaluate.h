// freshetctl evaluate: what recommendations would have been worth to the site's own readers,
// day by day.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/model/model.h"
#include "core/training/train.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct EvaluateOptions {
  int days = 28;
  std::string model;  // instead of recommend.model
  bool json = false;
  bool quiet = false;
};

// One way of ranking. Each is 0..1.
struct Quality {
  std::string name;
  double ndcg = 0, recall = 0, coverage = 0;
};

// Ways of ranking over the same moments of readers.
struct Comparison {
  std::string period;
  std::size_t cases = 0;
  std::vector<Quality> rows;
};

// On each of the last `days` days (UTC) with interactions: a model is trained on what was known
// when the day began, and for each reader of whom something was known, what they touched for the
// first time on that day is what should have been on top. Every seventh day everything is chosen
// and learned anew, as `freshetctl train` does; in between as chosen. The first comparison is of
// these days: the trend alone, trained before each day. The second has the model `present`, too,
// and begins when that was trained; empty when there is none, or when it was trained after
// everything. Errors: kInvalid "no_past" (interactions of fewer than two days).
Result<std::vector<Comparison>> evaluate_past(const training::TrainingData& data, const Settings& settings,
                                              int days, std::shared_ptr<const model::Model> current_model,
                                              const training::Progress& progress);

// Prints both. Run by root it works as the owner of the database. Errors: as above, and
// no database.
Result<int> run_evaluate(const EvaluateOptions& options, const Target& target);

}  // namespace freshet::ctl
