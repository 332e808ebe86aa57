#include "fcgi/http/token.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/hex.h"
#include "fcgi/http/signature.h"
#include "fcgi/http/target.h"

namespace freshet::http {
namespace {

constexpr std::string_view kVersion = "v1.";

tl::unexpected<Error> bad_token() {
  return fail(ErrorCode::kUnauthorised, "bad_token", {}, "not a token of this service");
}

bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

struct TokenParts {
  std::string_view kid, uid, exp, hmac;
  std::string_view message;  // the signed part
};

// A uid may contain dots but the other parts may not, so two parts are taken from each end.
std::optional<TokenParts> split_token(std::string_view token) {
  if (!token.starts_with(kVersion)) return std::nullopt;
  const std::size_t kid_end = token.find('.', kVersion.size());
  const std::size_t hmac = token.rfind('.');
  if (kid_end == std::string_view::npos || hmac <= kid_end) return std::nullopt;
  const std::size_t exp = token.rfind('.', hmac - 1);
  if (exp <= kid_end) return std::nullopt;
  return TokenParts{token.substr(kVersion.size(), kid_end - kVersion.size()),
                    token.substr(kid_end + 1, exp - kid_end - 1), token.substr(exp + 1, hmac - exp - 1),
                    token.substr(hmac + 1), token.substr(0, hmac)};
}

std::optional<UnixSeconds> parse_expiry(std::string_view text) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  const auto at = from_unix(value, "exp");
  return at ? std::optional(*at) : std::nullopt;
}

std::string percent_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (is_token_char(c) || c == '.' || c == '~') {
      out.push_back(c);
    } else {
      append_hex(out.append("%"), byte, kUpperHex);
    }
  }
  return out;
}

}  // namespace

Result<TokenKeys> TokenKeys::create(const std::map<std::string, std::string>& secrets) {
  TokenKeys keys;
  for (const auto& [kid, secret] : secrets) {
    if (!is_key_id(kid))
      return fail(ErrorCode::kInvalid, "bad_key_id", {},
                  "the key id \"" + kid + "\" does not match [A-Za-z0-9_-]+");
    FRESHET_TRY(hmac, Hmac::create(secret));
    keys.keys_.emplace(kid, std::move(*hmac));
  }
  return keys;
}

Result<ReaderId> TokenKeys::verify(std::string_view token, UnixSeconds now) {
  const auto parts = split_token(token);
  if (!parts) return bad_token();
  const auto key = keys_.find(parts->kid);
  if (key == keys_.end()) return bad_token();
  if (!constant_time_equal(hex(key->second.compute(parts->message)), parts->hmac)) return bad_token();

  const auto expires = parse_expiry(parts->exp);
  const auto uid = percent_decode(parts->uid);
  if (!expires || !uid) return bad_token();
  auto reader = ReaderId::parse(*uid, "uid");
  if (!reader) return bad_token();
  if (now >= *expires) return fail(ErrorCode::kUnauthorised, "expired_token", {}, "the token has expired");
  return reader;
}

Result<std::string> TokenKeys::sign(const std::string& kid, const ReaderId& reader, UnixSeconds expires) {
  const auto key = keys_.find(kid);
  if (key == keys_.end()) return fail(ErrorCode::kInvalid, "bad_key_id", {}, "unknown key " + kid);
  std::string token(kVersion);
  token.append(kid).append(".").append(percent_encode(reader.view())).append(".");
  token.append(std::to_string(expires.time_since_epoch().count()));
  const std::string hmac = hex(key->second.compute(token));
  return token.append(".").append(hmac);
}

}  // namespace freshet::http
