#include "scripts/ctl/import/source_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/base/descriptor.h"
#include "core/base/json.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {
namespace {

constexpr json::Limits kStateLimits{8, 50'000'000};
constexpr std::chrono::hours kForgottenAfter{30 * 24};
constexpr milliseconds kLockPause{50};

std::vector<std::string> texts_of(json::Value array) {
  std::vector<std::string> out;
  for (const json::Value& each : array.elements())
    if (each.is_string()) out.emplace_back(each.text());
  return out;
}

std::string text_of(json::Value value) {
  return value.is_string() ? std::string(value.text()) : std::string();
}

void write_texts(json::Writer& out, std::string_view key, const std::vector<std::string>& texts) {
  out.key(key).begin_array();
  for (const std::string& each : texts) out.string(each);
  out.end_array();
}

}  // namespace

std::string to_json(const SourceState& state) {
  std::string text;
  json::Writer out(text);
  out.begin_object().key("source").string(state.source).key("target").string(state.target);
  out.key("rule").string(state.rule).key("ids").begin_object();
  for (const auto& [id, published] : state.ids) out.key(id).integer(unix_s(published));
  out.end_object().key("documents").begin_object();
  for (const auto& [url, document] : state.documents) {
    out.key(url).begin_object().key("etag").string(document.validators.etag);
    out.key("last_modified").string(document.validators.last_modified);
    write_texts(out, "ids", document.ids);
    write_texts(out, "sitemaps", document.sitemaps);
    out.end_object();
  }
  out.end_object().end_object();
  return text;
}

std::optional<SourceState> parse_source_state(std::string text) {
  json::Document document;
  if (!document.parse(text, kStateLimits)) return std::nullopt;
  const json::Value root = document.root();
  SourceState out;
  out.source = text_of(root["source"]);
  out.target = text_of(root["target"]);
  out.rule = text_of(root["rule"]);
  if (!root["ids"].is_object() || !root["documents"].is_object()) return std::nullopt;
  for (const auto& [id, published] : root["ids"].members())
    out.ids.emplace(id, UnixSeconds(seconds(published.integer().value_or(0))));
  for (const auto& [url, value] : root["documents"].members())
    out.documents.emplace(
        url, SourceState::DocumentState{{text_of(value["etag"]), text_of(value["last_modified"])},
                                        texts_of(value["ids"]),
                                        texts_of(value["sitemaps"])});
  return out;
}

std::string state_path(const std::string& folder, const std::string& source, const std::string& target) {
  const std::string name = source + '\n' + target;
  return (std::filesystem::path(folder) / fmt::format("{:016x}.json", XXH3_64bits(name.data(), name.size())))
      .string();
}

SourceState read_state(const std::string& path, const std::string& source, const std::string& target) {
  SourceState empty;
  empty.source = source;
  empty.target = target;
  auto text = read_file(path);
  if (!text) return empty;
  auto state = parse_source_state(std::move(*text));
  return state && state->source == source && state->target == target ? std::move(*state) : empty;
}

// Writes a new file and renames it when it is complete. Under root the file gets the folder's
// owner, so that the timer can read it. It is never opened by its name, where the service could
// have put a link.
Result<void> write_state(const std::string& path, const SourceState& state) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::string next = path + ".XXXXXX";
  const int file = ::mkstemp(next.data());
  const auto failed = [&] {
    const std::string cause = std::strerror(errno);
    if (file >= 0) ::unlink(next.c_str());
    return fail(ErrorCode::kUnavailable, "state_file", {}, path + ": " + cause);
  };
  if (file < 0) return failed();
  const Descriptor owned(file);
  struct stat owner {};
  if (::geteuid() == 0 &&
      (::stat(folder.c_str(), &owner) != 0 || ::fchown(file, owner.st_uid, owner.st_gid) != 0))
    return failed();
  const std::string text = to_json(state);
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(file, rest.data(), rest.size());
    if (written < 0) return failed();
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::rename(next.c_str(), path.c_str()) != 0) return failed();
  return {};
}

Result<std::set<std::string>> ids_of_other_sources(const std::string& path, const std::string& target) {
  namespace fs = std::filesystem;
  std::set<std::string> out;
  std::error_code error;
  const auto unreadable = [](const fs::path& which, const std::string& why) {
    return fail(ErrorCode::kUnavailable, "state_file", {}, which.string() + ": " + why);
  };
  const fs::path folder = fs::path(path).parent_path();
  fs::directory_iterator at(folder, error), end;
  if (error == std::errc::no_such_file_or_directory) return out;
  for (; !error && at != end; at.increment(error)) {
    const auto& each = *at;
    if (each.path() == path || each.path().extension() != ".json") continue;
    const auto written = each.last_write_time(error);
    if (error) return unreadable(each.path(), error.message());
    if (fs::file_time_type::clock::now() - written > kForgottenAfter) continue;
    auto text = read_file(each.path().string());
    if (!text) return unreadable(each.path(), "cannot be read");
    const auto state = parse_source_state(std::move(*text));
    if (!state) return unreadable(each.path(), "is damaged; delete it and import its source again");
    if (state->target != target) continue;
    for (const auto& [id, published] : state->ids) out.insert(id);
  }
  if (error) return unreadable(folder, error.message());
  return out;
}

Result<StateLock> StateLock::take(const std::string& folder, milliseconds patience) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  StateLock lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (lock.fd_ < 0 || ::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (lock.fd_ < 0 || errno != EWOULDBLOCK)
      return fail(ErrorCode::kUnavailable, "state_file", {}, folder + ": " + std::strerror(errno));
    if (std::chrono::steady_clock::now() >= deadline)
      return fail(ErrorCode::kConflict, "import_running", {},
                  folder + " has been used by another import all the time; try again later");
    std::this_thread::sleep_for(kLockPause);
  }
  return lock;
}
StateLock::~StateLock() {
  if (fd_ >= 0) ::close(fd_);
}

PruneDecision decide_prune(const std::map<std::string, UnixSeconds>& imported,
                           const std::map<std::string, UnixSeconds>& present, UnixSeconds oldest) {
  PruneDecision out;
  for (const auto& [id, published] : imported) {
    if (published < oldest) continue;
    ++out.considered;
    if (!present.contains(id)) out.gone.push_back(id);
  }
  out.is_too_much = out.gone.size() * 3 > out.considered;
  return out;
}

}  // namespace freshet::ctl
