// What `freshetctl train` learns from: the recorder's database as model::TrainingData.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/training/training_data.h"

namespace freshet::training {

// All items, hidden ones flagged, ordered by id, and of each reader the newest max_per_reader
// interactions, oldest first, readers one after the other. Interactions with items that were never
// put are left out. As of one moment; writers are not held up. Memory: the result and the index of
// its ids. Blocking; one pass, about 0.6 µs an interaction. Errors: those of Database (database.h);
// the file must exist.
Result<TrainingData> read_training_data(const std::string& database, const TrainSettings& settings,
                                        UnixSeconds now);

}  // namespace freshet::training
