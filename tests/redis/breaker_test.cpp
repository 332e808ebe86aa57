#include "core/redis/breaker.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "core/redis/errors.h"

using namespace freshet;
using namespace freshet::redis;
using namespace std::chrono_literals;

namespace {

constexpr BreakerOptions kOptions{
    .failure_threshold = 3, .open_delay = 100ms, .closed_delay = 50ms, .max_delay = 2000ms};

}  // namespace

TEST_CASE("One slow reply causes no delay and does not open the breaker", "[breaker]") {
  Breaker breaker(kOptions);
  CHECK(breaker.record_failure(FailureKind::kTimeout, 0) == 0ms);
  CHECK(breaker.state() == BreakerState::kClosed);
  breaker.record_success();
  CHECK(breaker.record_failure(FailureKind::kTimeout, 0) == 0ms);
}

TEST_CASE("The breaker opens after the configured number of failures, for twice as long each time",
          "[breaker]") {
  Breaker breaker(kOptions);
  breaker.record_failure(FailureKind::kTimeout, 0);
  CHECK(breaker.record_failure(FailureKind::kTimeout, 0) == 50ms);
  CHECK(breaker.state() == BreakerState::kClosed);
  for (const milliseconds wait : {100ms, 200ms, 400ms, 800ms, 1600ms, 2000ms, 2000ms}) {
    CHECK(breaker.record_failure(FailureKind::kTimeout, 0) == wait);
    CHECK(breaker.state() == BreakerState::kOpen);
    CHECK_FALSE(breaker.allows(0));
  }
}

TEST_CASE("A Redis that answers nothing but PING is tried less and less often", "[breaker]") {
  Breaker breaker(kOptions);
  for (int i = 0; i < 2; ++i) breaker.record_failure(FailureKind::kTimeout, 0);
  for (const milliseconds wait : {100ms, 200ms, 400ms}) {
    CHECK(breaker.record_failure(FailureKind::kTimeout, 0) == wait);
    breaker.record_ping();
    CHECK(breaker.state() == BreakerState::kHalfOpen);
    CHECK(breaker.allows(0));
    CHECK_FALSE(breaker.allows(1));
  }
  breaker.record_success();
  CHECK(breaker.state() == BreakerState::kClosed);
  CHECK(breaker.allows(1000));
  CHECK(breaker.record_failure(FailureKind::kTimeout, 0) == 0ms);
}

TEST_CASE("A refused connection is retried within half a second", "[breaker]") {
  Breaker breaker(kOptions);
  for (int i = 0; i < 40; ++i) CHECK(breaker.record_failure(FailureKind::kRefused, 0) <= 500ms);
  CHECK(breaker.record_failure(FailureKind::kTimeout, 0) == 2000ms);
}

TEST_CASE("No delay exceeds the maximum, and jitter shortens it by at most a quarter", "[breaker]") {
  CHECK(rc::check("bounds", [](std::vector<bool> silent) {
    Breaker plain(kOptions), hasty(kOptions);
    for (const bool each : silent) {
      const FailureKind how = each ? FailureKind::kTimeout : FailureKind::kRefused;
      const milliseconds longest = plain.record_failure(how, 0), shortest = hasty.record_failure(how, 0.999);
      RC_ASSERT(longest <= kOptions.max_delay);
      RC_ASSERT(shortest <= longest);
      RC_ASSERT(shortest * 4 + 4ms >= longest * 3);
    }
  }));
}

TEST_CASE("Every error class has a name of its own", "[errors]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < kErrorClasses; ++i) names.insert(error_class_name(static_cast<ErrorClass>(i)));
  CHECK(names.size() == kErrorClasses);
  CHECK_FALSE(names.contains(""));
}

TEST_CASE("Each error line of Redis maps to its class, retry policy and reason", "[errors]") {
  struct Row {
    const char* line;
    ErrorClass error_class;
    RetryPolicy retry;
    std::string_view reason;
  };
  const std::vector<Row> rows{
      {"OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::kMemory, RetryPolicy::kDegrade,
       "redis_oom"},
      {"READONLY You can't write against a read only replica.", ErrorClass::kReadOnly,
       RetryPolicy::kReconnect, "redis_readonly"},
      {"LOADING Redis is loading the dataset in memory", ErrorClass::kLoading, RetryPolicy::kDegrade,
       "redis_loading"},
      {"BUSY Redis is busy running a script.", ErrorClass::kBusy, RetryPolicy::kDegrade, "redis_busy"},
      {"UNKILLABLE Sorry the script already executed write commands", ErrorClass::kBusy,
       RetryPolicy::kDegrade, "redis_busy"},
      {"MISCONF Redis is configured to save RDB snapshots", ErrorClass::kPersistence, RetryPolicy::kDegrade,
       "redis_misconf"},
      {"NOAUTH Authentication required.", ErrorClass::kAuth, RetryPolicy::kReconnect, "redis_noauth"},
      {"WRONGPASS invalid username-password pair", ErrorClass::kAuth, RetryPolicy::kDegrade, "redis_noauth"},
      {"NOPERM this user has no permissions to run the 'get' command", ErrorClass::kPermission,
       RetryPolicy::kDegrade, "redis_noperm"},
      {"ERR The user executing the script can't run this command or subcommand script: x",
       ErrorClass::kPermission, RetryPolicy::kDegrade, "redis_noperm"},
      {"MASTERDOWN Link with MASTER is down", ErrorClass::kMasterDown, RetryPolicy::kReconnect,
       "redis_masterdown"},
      {"NOREPLICAS Not enough good replicas to write.", ErrorClass::kReplicas, RetryPolicy::kDegrade,
       "redis_noreplicas"},
      {"ERR max number of clients reached", ErrorClass::kClients, RetryPolicy::kDegrade, "redis_maxclients"},
      {"CLUSTERDOWN The cluster is down", ErrorClass::kCluster, RetryPolicy::kDegrade, "redis_clusterdown"},
      {"TRYAGAIN Multiple keys request during rehashing of slot", ErrorClass::kCluster,
       RetryPolicy::kRedirect, "redis_tryagain"},
      {"MOVED 3999 127.0.0.1:6381", ErrorClass::kCluster, RetryPolicy::kRedirect, "redis_moved"},
      {"ASK 3999 127.0.0.1:6381", ErrorClass::kCluster, RetryPolicy::kRedirect, "redis_moved"},
      {"NOSCRIPT No matching script.", ErrorClass::kScript, RetryPolicy::kRetry, "redis_noscript"},
      {"EXECABORT Transaction discarded because of previous errors.", ErrorClass::kCommand,
       RetryPolicy::kFailAll, "redis_error"},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", ErrorClass::kCommand,
       RetryPolicy::kFail, "redis_error"},
      {"ERR unknown command", ErrorClass::kCommand, RetryPolicy::kFail, "redis_error"}};
  for (const Row& each : rows) {
    INFO(each.line);
    const ErrorRow* row = find_error(each.line);
    REQUIRE(row != nullptr);
    CHECK(row->error_class == each.error_class);
    CHECK(row->retry == each.retry);
    const Error error = classify(each.line);
    CHECK(error.reason == each.reason);
    CHECK(error.detail == each.line);
    // An error that is retried or degraded must not count as ours.
    const bool ours = each.retry == RetryPolicy::kFail || each.retry == RetryPolicy::kFailAll;
    CHECK((error.code == ErrorCode::kInternal) == ours);
  }
}

TEST_CASE("An error of our scripts is not counted and maps to what kScriptErrors says", "[errors]") {
  CHECK(find_error("TOO_MANY_PENDING") == nullptr);
  CHECK(find_error("OOMPH") == nullptr);
  CHECK(find_error("") == nullptr);
  CHECK(classify("OOMPH").code == ErrorCode::kInternal);
  const Error full = classify("TOO_MANY_PENDING pages wait");
  CHECK(full.code == ErrorCode::kUnavailable);
  CHECK(full.reason == "too_many_pending");
  CHECK(full.detail == "pages wait");
}
