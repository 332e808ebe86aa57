#include "core/base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>

#include "core/base/log_line.h"

namespace freshet::log {
namespace {

struct LevelRow {
  Level level;
  std::string_view name;
  spdlog::level::level_enum threshold;
  std::string_view syslog_prefix;  // priority prefix that journald reads at the start of a line
};

constexpr std::array kLevels{
    LevelRow{Level::kDebug, "debug", spdlog::level::debug, "<7>"},
    LevelRow{Level::kNotice, "notice", spdlog::level::info, "<5>"},
    LevelRow{Level::kWarning, "warning", spdlog::level::warn, "<4>"},
    LevelRow{Level::kError, "error", spdlog::level::err, "<3>"},
};

const LevelRow& level_row(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

// The log's target. Global state of the process.
struct Destination {
  std::mutex mutex;  // reopen() may run while another thread writes
  std::string target = "stderr";
  bool is_journald = false;
  std::shared_ptr<spdlog::logger> logger;
  std::optional<OutputMode> redirect_mode;
  // The original stderr, duplicated before it is redirected.
  int stderr_fd = STDERR_FILENO;
  FILE* stderr_file = stderr;
};

// Returns whether `fd` is journald's stream. journald adds the time itself and reads a priority
// prefix.
bool is_journald_stream(int fd) {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || fstat(fd, &status) != 0) return false;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == stream;
}

void redirect_fd(int from, int to) {
  if (dup2(to, from) < 0) throw std::system_error(errno, std::generic_category(), "dup2");
}

int open_or_throw(const char* path, int flags) {
  const int fd = ::open(path, flags | O_CLOEXEC, 0644);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  return fd;
}

// Points stdout and stderr at the redirect target.
void apply_redirect(const Destination& dest) {
  if (!dest.redirect_mode) return;
  const bool discard = *dest.redirect_mode == OutputMode::kDiscard;
  if (!discard && dest.target == "stderr") return redirect_fd(STDOUT_FILENO, STDERR_FILENO);
  const int fd = discard ? open_or_throw("/dev/null", O_WRONLY)
                         : open_or_throw(dest.target.c_str(), O_WRONLY | O_APPEND | O_CREAT);
  redirect_fd(STDOUT_FILENO, fd);
  redirect_fd(STDERR_FILENO, fd);
  ::close(fd);
}

// Throws if the file cannot be opened.
void open_sink(Destination& dest, spdlog::level::level_enum threshold) {
  spdlog::sink_ptr sink;
  if (dest.target == "stderr") {
    using Stream = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
    sink = std::make_shared<Stream>(dest.stderr_file);
  } else {
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(dest.target);
  }
  auto logger = std::make_shared<spdlog::logger>("freshet", std::move(sink));
  dest.is_journald = dest.target == "stderr" && is_journald_stream(dest.stderr_fd);
  logger->set_pattern(dest.is_journald ? "%v" : "%Y-%m-%dT%H:%M:%S.%e%z %v");
  logger->set_level(threshold);
  // Several processes append to one file, so each line is one write, and nothing stays buffered
  // across a fork.
  logger->flush_on(spdlog::level::trace);
  apply_redirect(dest);
  dest.logger = std::move(logger);
}

Destination& destination() {
  static Destination& instance = *[] {
    auto* first = new Destination;  // never destroyed: lines may be written during exit
    open_sink(*first, spdlog::level::info);
    return first;
  }();
  return instance;
}

std::pair<std::shared_ptr<spdlog::logger>, bool> current_logger() {
  Destination& out = destination();
  const std::lock_guard lock(out.mutex);
  return {out.logger, out.is_journald};
}

}  // namespace

void open(const std::string& target, std::string_view level) {
  spdlog::level::level_enum threshold = spdlog::level::info;
  for (const LevelRow& known : kLevels) {
    if (known.name == level) threshold = known.threshold;
  }
  const std::lock_guard lock(destination().mutex);
  destination().target = target;
  open_sink(destination(), threshold);
}

void redirect(OutputMode mode) {
  const std::lock_guard lock(destination().mutex);
  if (mode == OutputMode::kDiscard && destination().stderr_file == stderr) {
    destination().stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    destination().stderr_file = fdopen(destination().stderr_fd, "a");
    if (!destination().stderr_file) throw std::system_error(errno, std::generic_category(), "stderr");
    // Unbuffered like stderr, so that a line is one write.
    setvbuf(destination().stderr_file, nullptr, _IONBF, 0);
  }
  destination().redirect_mode = mode;
  open_sink(destination(), destination().logger->level());
}

void reopen() {
  try {
    const std::lock_guard lock(destination().mutex);
    open_sink(destination(), destination().logger->level());
  } catch (const std::exception& failure) {
    // The old file is still open; a line in a rotated file is better than none.
    error("log_reopen_failed", {{"file", destination().target}, {"error", failure.what()}});
  }
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  const auto [logger, is_journald] = current_logger();
  const LevelRow& severity = level_row(level);
  if (!logger->should_log(severity.threshold)) return;
  std::string line;
  if (is_journald) line.append(severity.syslog_prefix);
  line.append("level=").append(severity.name).append(" event=");
  append_value(line, event);
  append_fields(line, fields);
  logger->log(severity.threshold, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace freshet::log
