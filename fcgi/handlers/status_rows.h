// The rows of the status page, independent of its format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::handlers {

// Unix seconds; a date in formats for people, as in PHP-FPM.
struct Timestamp {
  std::int64_t at = 0;
};
// Written with two decimals, as in PHP-FPM.
struct Percent {
  double value = 0;
};
struct Row {
  std::string name;
  std::variant<std::int64_t, double, std::string, Timestamp, Percent> value;
};
using Rows = std::vector<Row>;

// PHP-FPM's rows, in its order.
Rows fpm_rows(Scoreboard& board, const Settings& settings, const Totals& totals, UnixSeconds now);
// Freshet's rows, which follow them.
Rows freshet_rows(Scoreboard& board, const Settings& settings, const Totals& totals);
Rows refused_rows(const Totals& totals);      // by reason
Rows redis_error_rows(const Totals& totals);  // by class
// The rows of one worker: PHP-FPM's, then ours.
Rows worker_rows(const Scoreboard& board, const WorkerSlot& slot, UnixSeconds now);

}  // namespace freshet::handlers
