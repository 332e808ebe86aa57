#include "scripts/ctl/commands/schedule.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "core/base/log.h"
#include "core/base/time.h"
#include "scripts/ctl/commands/json_report.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kNice = 19;  // as the units; the service is not slowed down
constexpr seconds kStopTimeout{15};
constexpr seconds kMaxSleep{60};  // the clock may be set meanwhile
constexpr std::time_t kDay = 86400;

// The timers and services in systemd/ have the same times, arguments and time limits.
struct JobRow {
  std::string_view name;
  JobTimes times;
  seconds timeout;
  std::array<const char*, 2> arguments;  // nullptr: none
};
constexpr std::array kJobs{
    JobRow{"train", {3, 30, 0}, seconds(7200), {"--quiet", nullptr}},
    JobRow{"tune", {-1, 0, 60}, seconds(900), {"--if-due", "--quiet"}},
    JobRow{"check", {5, 0, 0}, seconds(3600), {"--sweep", "--quiet"}},
    JobRow{"push-recommendations", {-1, 0, 10}, seconds(900), {}},
    JobRow{"fetch-model", {-1, 0, 10}, seconds(900), {}},
    JobRow{"import", {-1, 0, 10}, seconds(900), {"--public-only", "--quiet"}},
};

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

bool is_enabled(std::string_view job, const Settings& settings) {
  if (job == "train" || job == "tune") return settings.recorder.enabled;
  if (job == "push-recommendations") return contains(settings.timeline.channels, "discover");
  return job != "fetch-model" || !settings.recommend.model_source.empty();
}

// systemd's Persistent=yes: a training that was missed follows at the start.
bool is_model_old(const Settings& settings, std::time_t now) {
  struct stat status {};
  return stat(settings.recommend.model.c_str(), &status) != 0 || now - status.st_mtime > kDay;
}

std::vector<std::string> target_arguments(const Target& target, bool with_account) {
  std::vector<std::string> out;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) out.insert(out.end(), {option, value});
  };
  add("--state", target.state);
  add("--base", target.base);
  add("--redis", target.redis);
  add("--config", target.config);
  add("--key", target.key);
  if (with_account) add("--redis-user", target.redis_user);
  return out;
}

// The files import.d/NAME.conf next to the configuration file, in the order of their names.
std::vector<std::string> import_jobs(const Target& target) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& each :
       fs::directory_iterator(fs::path(config_path(target)).parent_path() / "import.d", error))
    if (each.path().extension() == ".conf") out.push_back(each.path().string());
  std::ranges::sort(out);
  return out;
}

constexpr const char* kProgram = "/proc/self/exe";  // the program that runs, also after its file was replaced

class Job {
 public:
  Job(const JobRow& row, std::string name, std::vector<std::string> arguments)
      : row_(row), name_(std::move(name)), arguments_(std::move(arguments)) {}

  const std::string& name() const { return name_; }
  const JobRow& row() const { return row_; }
  bool running() const { return pid_ > 0; }
  std::time_t due() const { return due_; }
  void set_due(std::time_t at) { due_ = at; }
  // Follows a clock that was set back.
  void update_due(std::time_t now) { due_ = std::min(due_, next_due(row_.times, now)); }

  // Starts the job unless its last run has not ended. Sets the next due time.
  void start(std::time_t now) {
    due_ = next_due(row_.times, now);
    if (running())
      return log::warning("job_skipped", {{"job", name_}, {"reason", "its last run has not ended"}});
    std::vector<char*> argv;
    for (std::string& each : arguments_) argv.push_back(each.data());
    argv.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawn(&pid_, kProgram, nullptr, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
      pid_ = 0;
      return log::error("job_failed", {{"job", name_}, {"error", std::strerror(error)}});
    }
    started_at_ = Clock::now();
    deadline_ = started_at_ + row_.timeout;
    stop_signal_ = SIGTERM;
    log::notice("job_started", {{"job", name_}, {"pid", std::to_string(pid_)}});
  }

  // Asks the run to end, and kills it kStopTimeout later.
  void stop() {
    if (!running()) return;
    kill(pid_, stop_signal_);
    stop_signal_ = SIGKILL;
    deadline_ = Clock::now() + kStopTimeout;
  }

  void check_deadline() {
    if (!running() || Clock::now() < deadline_) return;
    log::warning("job_timed_out", {{"job", name_}, {"pid", std::to_string(pid_)}});
    stop();
  }

  // Returns whether `pid` was this job's process.
  bool on_exit(pid_t pid, int status) {
    if (pid != pid_) return false;
    pid_ = 0;
    const std::string took = fmt::format("{:.1f}", to_seconds(Clock::now() - started_at_));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      log::notice("job_finished", {{"job", name_}, {"seconds", took}});
    else
      log::warning("job_failed",
                   {{"job", name_},
                    {"status", WIFEXITED(status) ? "exit " + std::to_string(WEXITSTATUS(status))
                                                 : "signal " + std::to_string(WTERMSIG(status))},
                    {"seconds", took}});
    return true;
  }

 private:
  const JobRow& row_;
  std::string name_;
  std::vector<std::string> arguments_;
  std::time_t due_ = 0;
  pid_t pid_ = 0;
  int stop_signal_ = SIGTERM;
  Clock::time_point started_at_, deadline_;
};

// `subject`: in the job's name; empty if there is only one such job.
Job make_job(const JobRow& row, const Target& target, const std::string& subject,
             const std::vector<std::string>& own_arguments) {
  std::vector<std::string> arguments{"freshetctl", std::string(row.name)};
  arguments.insert(arguments.end(), own_arguments.begin(), own_arguments.end());
  for (const char* each : row.arguments)
    if (each != nullptr) arguments.emplace_back(each);
  for (std::string& each : target_arguments(target, row.name == "check"))
    arguments.push_back(std::move(each));
  return {row, subject.empty() ? std::string(row.name) : std::string(row.name) + " " + subject,
          std::move(arguments)};
}

std::vector<Job> make_jobs(const ScheduleOptions& options, const Target& target, const Settings& settings) {
  std::vector<Job> jobs;
  for (const JobRow& row : kJobs) {
    if (options.jobs.empty() ? !is_enabled(row.name, settings) : !contains(options.jobs, row.name)) continue;
    if (row.name == "push-recommendations") {
      for (const std::string& channel : options.channels)
        jobs.push_back(make_job(row, target, channel, {channel}));
    } else if (row.name == "import") {
      // As the unit, whose state directory has the database.
      const std::string cache = (fs::path(settings.recorder.database).parent_path() / "import").string();
      for (const std::string& file : import_jobs(target))
        jobs.push_back(
            make_job(row, target, fs::path(file).stem().string(), {"--job", file, "--cache", cache}));
    } else {
      jobs.push_back(make_job(row, target, "", {}));
    }
  }
  return jobs;
}

// Blocks the signals that wait_for_signal() receives.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&signals, each);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Also collects processes that were orphaned to this one, the first of a container.
void collect_exited(std::vector<Job>& jobs) {
  int status = 0;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
    for (Job& job : jobs)
      if (job.on_exit(pid, status)) break;
}

void print_jobs(const std::vector<Job>& jobs) {
  report_json([&](json::Writer& out) {
    out.key("jobs").begin_array();
    for (const Job& job : jobs)
      out.begin_object().key("job").string(job.name()).key("due").integer(job.due()).end_object();
    out.end_array();
  });
}

void run_jobs(std::vector<Job>& jobs) {
  const sigset_t signals = block_signals();
  bool stopping = false;
  while (!stopping || std::ranges::any_of(jobs, &Job::running)) {
    const std::time_t now = std::time(nullptr);
    std::time_t wake = now + kMaxSleep.count();
    for (Job& job : jobs) {
      if (!stopping && job.due() <= now) job.start(now);
      job.update_due(now);
      job.check_deadline();
      wake = std::min(wake, job.due());
    }
    const bool is_running = std::ranges::any_of(jobs, &Job::running);
    const timespec wait{is_running ? 1 : std::max<std::time_t>(1, wake - now), 0};
    const int signal = sigtimedwait(&signals, nullptr, &wait);
    collect_exited(jobs);
    if (signal != SIGTERM && signal != SIGINT) continue;
    stopping = true;
    for (Job& job : jobs) job.stop();
  }
}

}  // namespace

std::time_t next_due(const JobTimes& times, std::time_t now) {
  if (times.interval_minutes > 0) {
    const std::time_t interval = std::time_t{60} * times.interval_minutes;
    return (now / interval + 1) * interval;
  }
  for (int day = 0;; ++day) {
    std::tm local{};
    localtime_r(&now, &local);
    local.tm_mday += day;
    local.tm_hour = times.hour;
    local.tm_min = times.minute;
    local.tm_sec = 0;
    local.tm_isdst = -1;
    if (const std::time_t at = mktime(&local); at > now) return at;
  }
}

Result<int> run_schedule(const ScheduleOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  std::vector<Job> jobs = make_jobs(options, target, *settings);
  if (jobs.empty())
    return fail(ErrorCode::kInvalid, "no_jobs", {}, "the configuration enables no job; name one");
  const std::time_t now = std::time(nullptr);
  for (Job& job : jobs) {
    const bool was_missed = job.row().name == "train" && is_model_old(*settings, now);
    job.set_due(options.run_now || was_missed ? now : next_due(job.row().times, now));
  }
  if (options.json) {
    print_jobs(jobs);
    return 0;
  }
  (void)setpriority(PRIO_PROCESS, 0, kNice);
  for (const Job& job : jobs)
    log::notice("job_scheduled", {{"job", job.name()}, {"due", to_rfc3339(UnixSeconds(seconds(job.due())))}});
  run_jobs(jobs);
  return 0;
}

}  // namespace freshet::ctl
