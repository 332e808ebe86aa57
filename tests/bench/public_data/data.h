// Public data sets as training data, and the measuring that they share.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/model/model.h"
#include "core/training/train.h"
#include "tests/bench/public_data/sets.h"

namespace freshet::bench {

// The lines of a file as numbers. Errors: kNotFound "no_file", kInvalid "bad_data" with the line.
Result<std::vector<std::vector<std::uint32_t>>> read_numbers(const std::filesystem::path& path);

// "000042": ids in the order of their numbers, so that model indexes are the data set's.
std::string padded(std::uint32_t number);

// Items 0 … count − 1 and an event of each reader with each of its items, at data.now.
training::TrainingData training_data(std::span<const std::vector<std::uint32_t>> items_of_readers,
                                     std::uint32_t count);

struct Trial {
  std::shared_ptr<const model::Model> model;  // as it was written and mapped
  std::string report;                         // what validation said
  std::chrono::duration<double> trained{0};   // read from SQLite, trained, written
};

// Puts the data into a database as the recorder does, then times reading, training and writing. In
// a folder of its own under the system's temporary directory, removed when done.
Result<Trial> trial(const training::TrainingData& data, const TrainSettings& settings, const Stage& stage);

// A folder that is removed with what is in it.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::filesystem::path& below);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Accuracy {
  double recall = 0, ndcg = 0;  // at 20, mean over readers with something wanted
};

// Ranks all items but `without` (ascending or not) and each reader's own by affinity.
Accuracy accuracy(const model::Model& model, std::span<const std::vector<std::uint32_t>> profiles,
                  std::span<const std::vector<std::uint32_t>> wanted, std::span<const std::uint32_t> without);

struct Times {
  double p50_us = 0, p99_us = 0;
};

// Each reader's affinities and top 20, with at most the first 200 of the profile, as serving has
// it; the median of three.
Times scoring_times(const model::Model& model, std::span<const std::vector<std::uint32_t>> profiles);

}  // namespace freshet::bench
