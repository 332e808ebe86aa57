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
  std::string_view journal;  // syslog's priority, as journald reads it at the head of a line
};

constexpr std::array kLevels{
    LevelRow{Level::kDebug, "debug", spdlog::level::debug, "<7>"},
    LevelRow{Level::kNotice, "notice", spdlog::level::info, "<5>"},
    LevelRow{Level::kWarning, "warning", spdlog::level::warn, "<4>"},
    LevelRow{Level::kError, "error", spdlog::level::err, "<3>"},
};

const LevelRow& row(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

// The one piece of state of a process that everything shares: where its lines go.
struct Sink {
  std::mutex mutex;  // one thread may reopen while another writes
  std::string target = "stderr";
  bool journal = false;
  std::shared_ptr<spdlog::logger> logger;
  std::optional<Output> redirected;
  // What stderr was before it was redirected; the real one until then.
  int stderr_fd = STDERR_FILENO;
  FILE* stderr_file = stderr;
};

// True iff this is journald's stream: it stamps lines itself and reads a priority in front of each.
bool is_journal(int fd) {
  const char* const stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || fstat(fd, &status) != 0) return false;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == stream;
}

void point(int from, int to) {
  if (dup2(to, from) < 0) throw std::system_error(errno, std::generic_category(), "dup2");
}

int open_or_throw(const char* path, int flags) {
  const int fd = ::open(path, flags | O_CLOEXEC, 0644);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
  return fd;
}

// Points stdout and stderr to where they shall lead.
void place_output(const Sink& output) {
  if (!output.redirected) return;
  const bool dropped = *output.redirected == Output::kDropped;
  if (!dropped && output.target == "stderr") return point(STDOUT_FILENO, STDERR_FILENO);
  const int fd = dropped ? open_or_throw("/dev/null", O_WRONLY)
                         : open_or_throw(output.target.c_str(), O_WRONLY | O_APPEND | O_CREAT);
  point(STDOUT_FILENO, fd);
  point(STDERR_FILENO, fd);
  ::close(fd);
}

// Throws when the file cannot be opened.
void connect(Sink& output, spdlog::level::level_enum threshold) {
  spdlog::sink_ptr sink;
  if (output.target == "stderr") {
    using Stream = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;
    sink = std::make_shared<Stream>(output.stderr_file);
  } else {
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(output.target);
  }
  auto logger = std::make_shared<spdlog::logger>("freshet", std::move(sink));
  output.journal = output.target == "stderr" && is_journal(output.stderr_fd);
  logger->set_pattern(output.journal ? "%v" : "%Y-%m-%dT%H:%M:%S.%e%z %v");
  logger->set_level(threshold);
  // Several processes append to one file: a line leaves in one write, and nothing is buffered
  // across a fork.
  logger->flush_on(spdlog::level::trace);
  place_output(output);
  output.logger = std::move(logger);
}

Sink& output() {
  static Sink& instance = *[] {
    auto* first = new Sink;  // never destroyed: the last line may come late
    connect(*first, spdlog::level::info);
    return first;
  }();
  return instance;
}

std::pair<std::shared_ptr<spdlog::logger>, bool> current() {
  Sink& out = output();
  const std::lock_guard lock(out.mutex);
  return {out.logger, out.journal};
}

}  // namespace

void open(const std::string& target, std::string_view level) {
  spdlog::level::level_enum threshold = spdlog::level::info;
  for (const LevelRow& known : kLevels) {
    if (known.name == level) threshold = known.threshold;
  }
  const std::lock_guard lock(output().mutex);
  output().target = target;
  connect(output(), threshold);
}

void redirect(Output to) {
  const std::lock_guard lock(output().mutex);
  if (to == Output::kDropped && output().stderr_file == stderr) {
    output().stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    output().stderr_file = fdopen(output().stderr_fd, "a");
    if (!output().stderr_file) throw std::system_error(errno, std::generic_category(), "stderr");
    setvbuf(output().stderr_file, nullptr, _IONBF, 0);  // as stderr: a line in one write
  }
  output().redirected = to;
  connect(output(), output().logger->level());
}

void reopen() {
  try {
    const std::lock_guard lock(output().mutex);
    connect(output(), output().logger->level());
  } catch (const std::exception& failure) {
    // The old file is still open: better a line in a moved file than none.
    error("log_reopen_failed", {{"file", output().target}, {"why", failure.what()}});
  }
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  const auto [logger, journal] = current();
  const LevelRow& severity = row(level);
  if (!logger->should_log(severity.threshold)) return;
  std::string line;
  if (journal) line.append(severity.journal);
  line.append("level=").append(severity.name).append(" event=");
  append_value(line, event);
  append_fields(line, fields);
  logger->log(severity.threshold, spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace freshet::log
