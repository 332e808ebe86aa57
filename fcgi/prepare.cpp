#include "fcgi/prepare.h"

#include <sys/random.h>

#include <cstdlib>
#include <utility>

#include "core/base/secret.h"
#include "fcgi/http/identity.h"
#include "fcgi/http/signature.h"

namespace freshet {

std::string make_random_salt() {
  std::string salt(32, '\0');
  if (getrandom(salt.data(), salt.size(), 0) != static_cast<ssize_t>(salt.size())) std::abort();
  return salt;
}

Result<redis::Endpoint> redis_endpoint(const RedisSettings& settings, const Prepared& prepared) {
  return redis::endpoint_of(settings, prepared.redis_password, prepared.sentinel_password);
}

Result<http::ClientLists> read_clients(const ClientSettings& settings) {
  http::ClientLists lists;
  for (const auto& [file, into] :
       {std::pair(&settings.deny_file, &lists.denied), std::pair(&settings.allow_file, &lists.allowed)}) {
    FRESHET_TRY(read, http::ClientList::read(*file));
    *into = std::move(*read);
  }
  return lists;
}

Result<Prepared> prepare(const Settings& settings, const std::string& random_salt) {
  Prepared prepared;
  prepared.salt = random_salt;
  const auto read_into = [](const std::string& name, std::string& into) -> Result<void> {
    if (name.empty()) return {};
    FRESHET_TRY(secret, read_secret(name));
    into = std::move(*secret);
    return {};
  };
  if (auto read = read_into(settings.identity.salt_file, prepared.salt); !read)
    return tl::unexpected(read.error());
  if (auto read = read_into(settings.redis.password_file, prepared.redis_password); !read) {
    return tl::unexpected(read.error());
  }
  if (auto read = read_into(settings.redis.sentinel_password_file, prepared.sentinel_password); !read) {
    return tl::unexpected(read.error());
  }
  for (const auto& [kid, file] : settings.identity.token_key_files) {
    if (auto read = read_into(file, prepared.tokens[kid]); !read) return tl::unexpected(read.error());
  }
  for (const auto& [kid, file] : settings.identity.internal_key_files) {
    if (auto read = read_into(file, prepared.internal[kid]); !read) return tl::unexpected(read.error());
  }
  // A weak key or a bad kid is found here, before anything is forked.
  const auto mode = http::parse_identity_mode(settings.identity.mode);
  if (auto identity = http::Identity::create(mode, prepared.salt, prepared.tokens); !identity) {
    return tl::unexpected(identity.error());
  }
  if (auto signatures = http::SignatureKeys::create(prepared.internal); !signatures) {
    return tl::unexpected(signatures.error());
  }
  FRESHET_TRY(lists, read_clients(settings.clients));
  prepared.clients = std::make_shared<const http::ClientLists>(std::move(*lists));
  FRESHET_TRY(bots, http::BotMatcher::create(settings.bots.allow));
  prepared.bots = std::make_shared<http::BotMatcher>(std::move(*bots));
  return prepared;
}

}  // namespace freshet
