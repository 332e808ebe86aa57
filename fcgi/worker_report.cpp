#include "fcgi/worker_report.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>

#include "fcgi/process/recycle.h"

namespace freshet {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;

std::uint64_t to_us(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(time.tv_usec);
}

}  // namespace

void WorkerReport::on_iteration() {
  const auto now = Clock::now();
  const gateway::GatewayCounters& gateway = sources_.gateway.counters();
  slot_.last_iteration_ms.store(duration_cast<milliseconds>(now.time_since_epoch()).count(), kRelaxed);
  slot_.phase.store(0, kRelaxed);
  slot_.accepted.store(gateway.accepted, kRelaxed);
  slot_.requests.store(gateway.requests, kRelaxed);
  slot_.over_budget.store(gateway.over_budget, kRelaxed);
  slot_.connections.store(static_cast<std::uint32_t>(sources_.gateway.connections()), kRelaxed);
  slot_.in_flight.store(gateway.in_flight, kRelaxed);
  slot_.detached.store(gateway.detached, kRelaxed);
  slot_.max_in_flight.store(gateway.peak_in_flight, kRelaxed);
  refused(Refusal::kProtocol).store(gateway.protocol_errors, kRelaxed);
  refused(Refusal::kReadTimeout).store(gateway.read_timeouts, kRelaxed);
  refused(Refusal::kWriteTimeout).store(gateway.write_timeouts, kRelaxed);
  refused(Refusal::kOverloaded).store(gateway.overloaded, kRelaxed);
  const redis::ConnectionCounters& redis = sources_.redis.counters();
  slot_.redis_commands.store(redis.commands, kRelaxed);
  slot_.redis_round_trips.store(redis.round_trips, kRelaxed);
  slot_.redis_errors.store(redis.errors, kRelaxed);
  slot_.redis_ready.store(sources_.redis.ready() ? 1 : 0, kRelaxed);
  const redis::BackgroundCounters& background = sources_.background.counters();
  // Without impressions, which may wait for ten seconds.
  slot_.background_queued.store(sources_.background.queued() + sources_.rank_updater.pending() +
                                    sources_.contributions.pending() + sources_.reads.pending() +
                                    sources_.timelines.pending_activity(),
                                kRelaxed);
  slot_.background_done.store(background.accepted, kRelaxed);
  slot_.background_age_ms.store(static_cast<std::uint64_t>(sources_.background.oldest_age().count()),
                                kRelaxed);
  slot_.background_dropped.store(background.dropped, kRelaxed);
  slot_.spooled_bytes.store(sources_.background.spool_bytes(), kRelaxed);
  slot_.spooled.store(background.spooled, kRelaxed);
  slot_.replayed.store(background.replayed, kRelaxed);
  sources_.observer.publish(sources_.gateway.oldest_request());
  const auto iteration_start = sources_.loop.iteration_start();
  if (iteration_start == last_iteration_) return;  // called from a timer, not at the end of an iteration
  last_iteration_ = iteration_start;
  slot_.loop_iterations.add(duration_cast<microseconds>(now - iteration_start));
}

void WorkerReport::on_heartbeat() {
  on_iteration();
  sources_.observer.flush();
  report_redis();
  report_process();
  report_listen_queue();
  const hot::ListCounters& lists = sources_.lists.counters();
  slot_.list_hits.store(lists.hits, kRelaxed);
  slot_.list_misses.store(lists.misses, kRelaxed);
  const items::CardCounters& cards = sources_.cards.counters();
  slot_.item_cache_hits.store(cards.hits, kRelaxed);
  slot_.item_cache_misses.store(cards.misses, kRelaxed);
  slot_.item_cache_bytes.store(cards.bytes, kRelaxed);
  slot_.feed_impressions.store(sources_.impressions.total(), kRelaxed);
  const auto model = sources_.model.current();
  slot_.model_trained_at.store(model ? model->trained_at().time_since_epoch().count() : 0, kRelaxed);
}

void WorkerReport::report_redis() {
  const redis::ConnectionCounters& redis = sources_.redis.counters();
  slot_.redis_reconnects.store(redis.connects > 0 ? redis.connects - 1 : 0, kRelaxed);
  slot_.redis_latency.store(redis.latency);
  for (std::size_t i = 0; i < redis::kErrorClasses; ++i)
    slot_.redis_errors_by_class[i].store(redis.errors_by_class[static_cast<redis::ErrorClass>(i)], kRelaxed);
  slot_.redis_breaker.store(static_cast<std::uint32_t>(sources_.redis.breaker_state()), kRelaxed);
}

void WorkerReport::report_process() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const std::uint64_t cpu = to_us(usage.ru_utime) + to_us(usage.ru_stime);
  const auto now = Clock::now();
  const auto wall = duration_cast<microseconds>(now - measured_at_).count();
  if (measured_at_ != Clock::time_point() && wall > 0) {
    const auto permille = (cpu - measured_cpu_us_) * 1000 / static_cast<std::uint64_t>(wall);
    slot_.cpu_permille.store(static_cast<std::uint32_t>(permille), kRelaxed);
  }
  measured_at_ = now;
  measured_cpu_us_ = cpu;
  slot_.cpu_us.store(cpu, kRelaxed);
  slot_.rss_bytes.store(resident_bytes(), kRelaxed);
  slot_.peak_rss_bytes.store(static_cast<std::uint64_t>(usage.ru_maxrss) * 1024, kRelaxed);
}

// The kernel reports the queue of a TCP socket to any process that holds it. For a unix socket only
// sock_diag does, which the sandbox forbids: the number stays 0, as in PHP-FPM, and `freshetctl
// status` shows the real one.
void WorkerReport::report_listen_queue() {
  if (sources_.listen_fd < 0) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(sources_.listen_fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  PoolCounters& pool = board_.pool();
  pool.listen_queue.store(info.tcpi_unacked, kRelaxed);
  if (info.tcpi_unacked > pool.max_listen_queue.load(kRelaxed))
    pool.max_listen_queue.store(info.tcpi_unacked, kRelaxed);
}

}  // namespace freshet
