// One worker, put together: the loop, the Redis connections, stores, use-cases, handlers and the gateway; and its life from ready to drained.
// This file and freshetd.cpp are the only ones of the service that know every layer.
#pragma once

#include <memory>
#include <string>

#include "fcgi/http/bots.h"
#include "fcgi/http/identity.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// What is prepared once in the master and inherited by every fork: secrets read from files and the compiled crawler patterns. Holds no
// descriptor and no thread.
struct Prepared {
  http::IdentityKeys keys;
  std::string redis_password;  // from redis.password_file
  std::shared_ptr<http::BotMatcher> bots;
};
// Reads the files that `settings` names. Without a salt file the salt is random, so visitors are new after a restart. Errors: kInvalid
// "bad_secret", with the file's name.
Result<Prepared> prepare(const Settings& settings);

// Runs in the child until it has drained; returns its exit status.
int run_worker(WorkerContext& context, const Prepared& prepared);

}  // namespace freshet
