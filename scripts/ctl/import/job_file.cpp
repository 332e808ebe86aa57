#include "scripts/ctl/import/job_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

constexpr std::int64_t kMaxAge = 100'000;  // of each unit
constexpr std::int64_t kMaxTimeoutS = 86400;

// Sets an option. False if it does not exist or the value has another type.
bool assign(const std::string& name, const toml::node& value, ImportOptions& options) {
  const std::map<std::string_view, std::string*> texts{{"feed", &options.feed},
                                                       {"sitemap", &options.sitemap},
                                                       {"wxr", &options.wxr},
                                                       {"ghost", &options.ghost},
                                                       {"outbox", &options.outbox},
                                                       {"markdown", &options.markdown},
                                                       {"csv", &options.csv},
                                                       {"id", &options.id},
                                                       {"source", &options.source},
                                                       {"base_url", &options.base_url},
                                                       {"limit_age", &options.limit_age}};
  if (const auto known = texts.find(name); known != texts.end()) {
    const auto given = value.value_exact<std::string>();
    if (given) *known->second = *given;
    return given.has_value();
  }
  if (name == "prune") {
    const auto given = value.value_exact<bool>();
    if (given) options.prune = *given;
    return given.has_value();
  }
  if (name == "max_bytes" || name == "timeout") {
    const std::int64_t given = value.value_exact<std::int64_t>().value_or(0);
    if (given < 1) return false;
    if (name == "max_bytes") options.max_bytes = static_cast<std::uint64_t>(given);
    if (name == "timeout") options.timeout_s = static_cast<int>(std::min(given, kMaxTimeoutS));
    return true;
  }
  const toml::array* const list = value.as_array();
  if (name != "hosts" || list == nullptr) return false;
  for (const toml::node& each : *list) {
    const auto host = each.value_exact<std::string>();
    if (!host) return false;
    options.hosts.push_back(*host);
  }
  return true;
}

}  // namespace

Result<seconds> parse_age(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const std::int64_t unit_s = unit == "d" ? 86400 : unit == "h" ? 3600 : unit == "m" ? 60 : 0;
  if (error != std::errc() || number < 1 || number > kMaxAge || unit_s == 0)
    return fail(ErrorCode::kInvalid, "bad_option", {},
                std::string(text) + " is not an age such as 90d, 12h or 30m");
  return seconds(number * unit_s);
}

Result<void> read_job(const std::string& path, ImportOptions& options) {
  FRESHET_TRY(text, read_file(path));
  const auto bad = [&](const std::string& why) {
    return fail(ErrorCode::kInvalid, "bad_job", {}, path + ": " + why);
  };
  try {
    const toml::table table = toml::parse(*text);
    for (const auto& [key, value] : table) {
      const std::string name{key.str()};
      if (!assign(name, value, options))
        return bad(name + " is no option of imports, or its value has another type");
    }
  } catch (const toml::parse_error& error) {
    return bad("line " + std::to_string(error.source().begin.line) + ": " + std::string(error.description()));
  }
  return {};
}

}  // namespace freshet::ctl
