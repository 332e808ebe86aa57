#include "fcgi/http/signature.h"

#include <openssl/sha.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/base/hex.h"

namespace freshet::http {
namespace {

struct SignatureParts {
  std::string_view kid, ts, sig;
};

tl::unexpected<Error> bad_signature() {
  return fail(ErrorCode::kUnauthorised, "bad_signature", {}, "not signed with a key of the internal server");
}

// Parses "Scheme kid=…, ts=…, sig=…" in any order. nullopt for another scheme or an unknown
// parameter; missing parameters are empty.
std::optional<SignatureParts> parse_signature(std::string_view authorization) {
  const std::size_t size = kSignatureScheme.size();
  if (authorization.size() <= size || authorization[size] != ' ' ||
      strncasecmp(authorization.data(), kSignatureScheme.data(), size) != 0)
    return std::nullopt;
  SignatureParts parts;
  for (std::string_view rest = authorization.substr(size); !rest.empty();) {
    const std::size_t comma = rest.find(',');
    std::string_view pair = rest.substr(0, comma);
    rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    while (pair.ends_with(' ')) pair.remove_suffix(1);
    if (pair.starts_with("kid=")) {
      parts.kid = pair.substr(4);
    } else if (pair.starts_with("ts=")) {
      parts.ts = pair.substr(3);
    } else if (pair.starts_with("sig=")) {
      parts.sig = pair.substr(4);
    } else {
      return std::nullopt;
    }
  }
  return parts;
}

std::string message_to_sign(const SignedRequest& request, std::string_view ts) {
  Hmac::Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(request.body.data()), request.body.size(), digest.data());
  std::string out("v1\n");
  out.append(request.method).append("\n").append(request.target).append("\n").append(ts).append("\n");
  return out.append(hex(digest));
}

}  // namespace

bool is_key_id(std::string_view kid) {
  return !kid.empty() && std::ranges::all_of(kid, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
  });
}

Result<SignatureKeys> SignatureKeys::create(const std::map<std::string, std::string>& secrets) {
  SignatureKeys signatures;
  for (const auto& [kid, secret] : secrets) {
    if (!is_key_id(kid))
      return fail(ErrorCode::kInvalid, "bad_key_id", {},
                  "the key id \"" + kid + "\" does not match [A-Za-z0-9_-]+");
    FRESHET_TRY(hmac, Hmac::create(secret));
    signatures.keys_.emplace(kid, std::move(*hmac));
  }
  return signatures;
}

Result<std::string_view> SignatureKeys::verify(std::string_view authorization, const SignedRequest& request,
                                               UnixSeconds now) {
  const auto parts = parse_signature(authorization);
  if (!parts) return bad_signature();
  const auto key = keys_.find(parts->kid);
  if (key == keys_.end()) return bad_signature();
  if (!constant_time_equal(hex(key->second.compute(message_to_sign(request, parts->ts))), parts->sig))
    return bad_signature();
  std::int64_t at = 0;
  const auto read = std::from_chars(parts->ts.data(), parts->ts.data() + parts->ts.size(), at);
  if (read.ec != std::errc() || read.ptr != parts->ts.data() + parts->ts.size()) return bad_signature();
  const std::int64_t clock = now.time_since_epoch().count();
  if (at < clock - kMaxClockSkew.count() || at > clock + kMaxClockSkew.count())
    return fail(ErrorCode::kUnauthorised, "stale_signature", {},
                "the timestamp is more than 5 minutes off; check the clocks");
  return parts->kid;
}

Result<std::string> SignatureKeys::sign(const std::string& kid, const SignedRequest& request,
                                        UnixSeconds now) {
  const auto key = keys_.find(kid);
  if (key == keys_.end()) return fail(ErrorCode::kInvalid, "bad_key_id", {}, "unknown key " + kid);
  const std::string ts = std::to_string(now.time_since_epoch().count());
  std::string out(kSignatureScheme);
  out.append(" kid=").append(kid).append(", ts=").append(ts).append(", sig=");
  return out.append(hex(key->second.compute(message_to_sign(request, ts))));
}

}  // namespace freshet::http
