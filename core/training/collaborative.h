// The collaborative relation of the model, learned from interactions: EASE or RP3beta, with
// parameters chosen on the validation set.
#pragma once

#include <string>

#include "core/config/settings.h"
#include "core/training/columns.h"
#include "core/training/ease.h"
#include "core/training/rp3beta.h"
#include "core/training/train.h"
#include "core/training/validation.h"

namespace freshet::training {

// The chosen parameters, and a human-readable report of the scores.
struct MethodChoice {
  Parameters parameters;
  std::string report;
};

// Tries the methods that settings.algorithm allows. With too few readers to validate on, returns
// the defaults.
MethodChoice choose_method(const Validation& validation, const TrainSettings& settings,
                           const Progress& progress);

// Fits the chosen method. Keeps settings.neighbours relations per item on average, counting items
// with interactions only.
Columns fit_columns(const Interactions& interactions, const Parameters& chosen,
                    const TrainSettings& settings);

}  // namespace freshet::training
