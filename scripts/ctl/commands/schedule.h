// freshetctl schedule: runs the jobs of the systemd timers, where there is no systemd.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct ScheduleOptions {
  std::vector<std::string> jobs;                  // names; empty: those that the configuration enables
  std::vector<std::string> channels{"discover"};  // of push-recommendations
  bool run_now = false;                           // also at the start
  bool json = false;                              // print the jobs instead
};

// When a job is due: daily at a time, or at multiples of an interval.
struct JobTimes {
  int hour = -1, minute = 0;  // local time; hour −1: not daily
  int interval_minutes = 0;   // divides 60
};

// The first due time after `now`. A local time that a change of the clock skips is moved by that
// change.
std::time_t next_due(const JobTimes& times, std::time_t now);

// Runs until SIGTERM or SIGINT, which also end the jobs in progress; returns 0. Errors: kInvalid
// "no_jobs" if there is nothing to run.
Result<int> run_schedule(const ScheduleOptions& options, const Target& target);

}  // namespace freshet::ctl
