// freshetctl evaluate DATASET DIR: the protocols of recommendation quality on public data, with the code that
// trains and serves.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "scripts/ctl/evaluate/evaluate_report.h"

namespace freshet::ctl {

struct EvaluateOptions {
  std::string data_set;   // a row of kDataSets
  std::string directory;  // where its files are
  bool json = false;
  bool quiet = false;
};

// What is being done and how much of it, 0..1.
using Stage = std::function<void(std::string_view what, double done)>;

struct DataSet {
  std::string_view name;
  std::string_view help;
  Result<EvaluationReport> (*evaluate)(const std::string& directory, const Stage& stage);
};

std::span<const DataSet> data_sets();

// Errors: kNotFound "no_file", kInvalid "bad_data" (not the data set's format), and training's.
Result<int> run_evaluate(const EvaluateOptions& options);

}  // namespace freshet::ctl
