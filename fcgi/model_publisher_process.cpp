#include "fcgi/model_publisher_process.h"

#include <pthread.h>
#include <signal.h>

#include <ctime>

#include "core/base/log.h"
#include "core/model/model_publisher.h"

namespace freshet {
namespace {

constexpr timespec kPollInterval{0, 500'000'000};

}  // namespace

int run_model_publisher(const Settings& settings, model::ModelHandoff& handoff) {
  // TERM ends the process at any point; an unnamed copy disappears with it. INT and QUIT may come
  // from the terminal and are left to the master.
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  sigset_t reopen;
  sigemptyset(&reopen);
  sigaddset(&reopen, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &reopen, nullptr);
  model::ModelPublisher publisher(settings.recommend.model, handoff);
  for (;;) {
    publisher.poll(model::ModelPublisher::Clock::now());
    if (sigtimedwait(&reopen, nullptr, &kPollInterval) == SIGUSR1) log::reopen();
  }
}

}  // namespace freshet
