// What an evaluation measured, as a table for people or as JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace freshet::bench {

struct Metric {
  std::string goal;  // of quality.md: "Q1"; empty: no goal
  std::string name;  // "ndcg@20"
  double value = 0;  // in `unit`
  std::string unit;  // "", "s", "us", "bytes"
  std::optional<double> must, stretch;
  bool less_is_better = false;
};

class EvaluationReport {
 public:
  explicit EvaluationReport(std::string title) : title_(std::move(title)) {}
  void add(Metric metric) { metrics_.push_back(std::move(metric)); }
  // A line under the table: what was chosen, what it rests on.
  void note(std::string line) { notes_.push_back(std::move(line)); }

  const std::vector<Metric>& metrics() const { return metrics_; }
  // Columns goal, measure, value, must, stretch and what was reached; then the notes.
  std::string table() const;
  // {"metrics":[{"goal":"Q1","name":"ndcg@20","value":0.2677},…],"notes":[…]} and a line feed.
  std::string json() const;

 private:
  std::string title_;
  std::vector<Metric> metrics_;
  std::vector<std::string> notes_;
};

}  // namespace freshet::bench
