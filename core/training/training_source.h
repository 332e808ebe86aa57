// Reads training data from the recorder's database.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "core/training/training_data.h"

namespace freshet::training {

// Reads all items, ordered by id, with hidden ones flagged, and the newest max_per_reader
// interactions of each reader, oldest first and grouped by reader. Skips interactions with
// unregistered items. Reads one consistent snapshot and does not block writers. Memory: the result
// and an index of its ids. Blocking; one pass, about 0.6 µs per interaction. Errors: those of
// Database (database.h); the file must exist.
Result<TrainingData> read_training_data(const std::string& database, const TrainSettings& settings,
                                        UnixSeconds now);

}  // namespace freshet::training
