// The part of the model that comes from who touched what: EASE or RP3beta, and their parameters, as
// validation says.
#pragma once

#include <string>

#include "core/config/settings.h"
#include "core/training/columns.h"
#include "core/training/ease.h"
#include "core/training/rp3beta.h"
#include "core/training/train.h"
#include "core/training/validation.h"

namespace freshet::training {

// What each reached on validation, for people.
struct MethodChoice {
  Parameters parameters;
  std::string report;
};

// Tries what settings.algorithm allows. With too few readers to judge by: the defaults.
MethodChoice choose_method(const Validation& validation, const TrainSettings& settings, const Progress& progress);

// The columns of the chosen one: settings.neighbours times the touched items in all.
Columns fit_columns(const Interactions& interactions, const Parameters& chosen, const TrainSettings& settings);

}  // namespace freshet::training
