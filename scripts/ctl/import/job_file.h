// A file of /etc/freshet/import.d: the options of a regular import, in TOML.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"
#include "scripts/ctl/replay/import.h"

namespace freshet::ctl {

// "90d", "12h", "30m": a positive number of days, hours or minutes. Errors: kInvalid "bad_option".
Result<seconds> parse_age(std::string_view text);

// Sets the options that the file names: feed, sitemap, wxr, ghost, markdown, csv, outbox, id,
// source, base_url, limit_age (strings), prune (boolean), hosts (strings), max_bytes and timeout
// (integers). Errors: kNotFound "no_file"; kInvalid "bad_job", with the file in the detail.
Result<void> read_job(const std::string& path, ImportOptions& options);

}  // namespace freshet::ctl
