// freshetctl evaluate: measures recommendations against the site's own history, day by day, and hot
// lists as the tuner does.
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

// Results of one ranking strategy. Each metric is in 0..1.
struct Quality {
  std::string name;
  double ndcg = 0, recall = 0, coverage = 0;
};

// Results of several ranking strategies on the same evaluation cases.
struct Comparison {
  std::string period;
  std::size_t cases = 0;
  std::vector<Quality> rows;
};

// Evaluates each of the last `days` UTC days with interactions. A model is trained on the data
// known at the start of the day; for each reader with a history, the items they first interacted
// with on that day are the relevant ones. Parameters are selected and the re-ranker is trained
// every seventh day, as `freshetctl train` does, and reused in between.
// The first comparison covers all of these days: trend only, and trained before each day. The
// second adds the model `current_model` and starts when that was trained; it is absent without such
// a model or if it was trained after all events. Errors: kInvalid "no_past" (interactions of fewer
// than two days).
Result<std::vector<Comparison>> evaluate_past(const training::TrainingData& data, const Settings& settings,
                                              int days, std::shared_ptr<const model::Model> current_model,
                                              const training::Progress& progress);

// Prints the comparisons and the quality of all hot lists, if there are enough views. Under root it
// switches to the owner of the database. Errors: as above, unless there are views; and no database.
Result<int> run_evaluate(const EvaluateOptions& options, const Target& target);

}  // namespace freshet::ctl
