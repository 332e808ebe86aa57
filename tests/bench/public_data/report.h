// The results of an evaluation, as a table or JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace freshet::bench {

struct Metric {
  std::string goal;  // from PERFORMANCE.md, such as "Q1"; empty if there is none
  std::string name;  // such as "ndcg@20"
  double value = 0;  // in `unit`
  std::string unit;  // "", "s", "us", "bytes"
  std::optional<double> must, stretch;
  bool less_is_better = false;
};

class EvaluationReport {
 public:
  explicit EvaluationReport(std::string title) : title_(std::move(title)) {}
  void add(Metric metric) { metrics_.push_back(std::move(metric)); }
  // Adds a line below the table.
  void note(std::string line) { notes_.push_back(std::move(line)); }

  const std::vector<Metric>& metrics() const { return metrics_; }
  // Columns: goal, measure, value, must, stretch and the verdict. The notes follow.
  std::string table() const;
  // {"metrics":[{"goal":"Q1","name":"ndcg@20","value":0.2677},…],"notes":[…]} and a newline.
  std::string json() const;

 private:
  std::string title_;
  std::vector<Metric> metrics_;
  std::vector<std::string> notes_;
};

}  // namespace freshet::bench
