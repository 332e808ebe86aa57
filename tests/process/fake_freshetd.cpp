// A replacement for freshetd in tests of upgrades: a master with fake children (fake_master.h).
//   fake_freshetd FOLDER READY_TIMEOUT_MS [-t]
// The last line of the executable file, appended to a copy, selects its behavior:
//   good     serves
//   refuse   rejects the configuration with -t: prints a reason on stderr, exits with 78
//   crash    aborts when started as the service
//   deaf     hangs when started as the service
// It logs "state <word>", the state received from the previous master or "none", and "limits <n>",
// the number of masters so far that took a token from the rate limit table, this one included.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "core/base/log.h"
#include "core/base/token_bucket_table.h"
#include "core/config/config.h"
#include "tests/process/fake_master.h"

namespace {

std::string behaviour() {
  std::ifstream self("/proc/self/exe", std::ios::binary);
  self.seekg(-16, std::ios::end);
  const std::string end((std::istreambuf_iterator<char>(self)), {});
  return end.substr(end.rfind('\n') + 1);
}

freshet::TokenBucketTable make_limit_table(std::optional<freshet::Handover>& handover) {
  constexpr std::size_t kBytes = 65536;
  if (!handover || handover->limits.get() < 0) return freshet::TokenBucketTable(kBytes);
  auto adopted = freshet::TokenBucketTable::adopt(std::move(handover->limits), kBytes);
  return adopted ? std::move(*adopted) : freshet::TokenBucketTable(kBytes);
}

std::int64_t tokens_taken(freshet::TokenBucketTable& table) {
  const auto rate = freshet::token_rate(0.001, 100);
  const auto result = table.take(1, rate, 0);
  return result.time_to_full_us / rate.interval_us;
}

int test(const std::string& folder) {
  const auto loaded = freshet::load_config(folder + "/freshet.toml");
  if (!loaded) std::cerr << loaded.error().detail << "\n";
  if (behaviour() == "refuse") std::cerr << "cannot accept\nthe configuration\n";
  return !loaded || behaviour() == "refuse" ? 78 : 0;
}

}  // namespace

int main(int argc, char* argv[]) {
  using namespace freshet;
  const std::string folder = argv[1];
  if (argc > 3) return test(folder);
  if (behaviour() == "crash") std::abort();  // not SIGSEGV, which sanitizers turn into an exit
  while (behaviour() == "deaf") pause();
  testing::set_up_fake_master(folder);
  auto handover = Handover::from_environment();
  if (!handover) return 98;
  log::notice("state", {{"word", *handover ? (*handover)->opaque_state : "none"}});
  TokenBucketTable limits = make_limit_table(*handover);
  log::notice("limits", {{"taken", std::to_string(tokens_taken(limits))}});
  testing::FakeMaster fake{folder, std::chrono::milliseconds(std::stoi(argv[2])), current_program(argc, argv),
                           "salt", limits.fd()};
  fake.program.test_arguments = {argv[0], folder, argv[2], "-t"};
  Scoreboard board(64);
  return testing::run_fake_master(fake, board, std::move(*handover));
}
