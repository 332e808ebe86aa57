#include "core/config/tuning.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <toml++/toml.h>
#include <algorithm>

#include "core/base/secret.h"

namespace freshet {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::int64_t kFormat = 1;
constexpr seconds kMaxAhead{86400};

auto bad_tuning(std::string detail) { return fail(ErrorCode::kInvalid, "bad_tuning", {}, std::move(detail)); }

std::string value_text(const toml::node& node) {
  if (const auto text = node.value<std::string>()) return *text;
  if (const auto number = node.value<double>()) return fmt::format("{}", *number);
  return {};
}

// Adds the directives of a table, of which `prefix` is the name.
Result<void> read_values(const toml::table& table, const std::string& prefix, Tuning& tuning) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* nested = node.as_table()) {
      FRESHET_TRY(read, read_values(*nested, name + ".", tuning));
      continue;
    }
    if (std::ranges::find(kTunedDirectives, name) == kTunedDirectives.end())
      return bad_tuning(name + " cannot be tuned");
    tuning.values[name] = value_text(node);
  }
  return {};
}

}  // namespace

std::string tuning_checksum_line(std::string_view text) {
  return fmt::format("# end {:016x}\n", XXH3_64bits(text.data(), text.size()));
}

Result<Tuning> load_tuning(const std::filesystem::path& path, UnixSeconds now) {
  std::error_code code;
  if (path.empty() || !std::filesystem::exists(path, code)) return Tuning();
  const auto file_text = read_whole_file(path, kMaxFileBytes);
  if (!file_text) return bad_tuning(file_text.error().detail);
  const std::string_view text = *file_text;
  const std::size_t last_line = text.size() < 2 ? std::string::npos : text.rfind('\n', text.size() - 2);
  if (last_line == std::string::npos ||
      text.substr(last_line + 1) != tuning_checksum_line(text.substr(0, last_line + 1)))
    return bad_tuning(
        "its checksum does not match: it is truncated or was edited. Run freshetctl tune to write it again");
  try {
    const toml::table file = toml::parse(text);
    if (file["format"].value_or(std::int64_t{0}) != kFormat)
      return bad_tuning("its format is not supported. Run freshetctl tune of this version");
    Tuning tuning;
    tuning.created = UnixSeconds{seconds{file["created"].value_or(std::int64_t{0})}};
    if (tuning.created > now + kMaxAhead)
      return bad_tuning("its `created` is more than a day ahead. Check the clock");
    if (const toml::table* values = file["values"].as_table()) {
      FRESHET_TRY(done, read_values(*values, "", tuning));
    }
    return tuning;
  } catch (const toml::parse_error& error) {
    return bad_tuning(std::string(error.description()));
  }
}

}  // namespace freshet
