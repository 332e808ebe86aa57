// Identifies who sent a request: the *reader*, the id of one of the site's users, empty if unknown,
// and the *visitor*, which always exists and is the unit of UV counts and deduplication.
//
// The reader depends on identity.mode:
//   header  the user that nginx's auth_request found (Request::verified_user)
//   token   a token in "Authorization: Bearer v1…", otherwise in the cookie freshet_token; over TLS
//           only __Host-freshet_token, which no other host of the site can set. An invalid bearer
//           token is an error; an invalid cookie is ignored, so that a page with a stale cookie
//           continues anonymously.
//   open    nothing is verified
// A reader id in the request itself (body or query) is trusted in mode `open`, and in every mode on
// the internal server, where it takes precedence over the verified one. Elsewhere it is ignored.
// Wherever a reader is named, 0 names none (is_unset_id). If no reader is named and none may be
// claimed, the visitor cookie names an anonymous one (readers.anonymous, Call::identify).
//
// The visitor is the first of these that applies. The first letter separates the classes, so that
// no reader's id can be another client's visitor id:
//   "u" + HMAC(salt, reader)                             the reader
//   "c" + the random id in the cookie that we signed     freshet_visitor; over TLS only
//           __Host-freshet_visitor, which no other host of the site can set
//   "a" + HMAC(salt, fingerprint, User-Agent, address)   anonymous; an IPv6 address counts as its
//           /64, which is one subscriber
// Each is 23 characters of [A-Za-z0-9_-]. No raw id or address is stored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "fcgi/gateway/request.h"
#include "fcgi/http/hmac.h"
#include "fcgi/http/token.h"

namespace freshet::http {

enum class IdentityMode : std::uint8_t { kHeader, kToken, kOpen };
// "header", "token" or "open". Any other name is kHeader, the mode that trusts no claim.
IdentityMode parse_identity_mode(std::string_view name);

// The request's own claims about its sender.
struct ClaimedIdentity {
  ReaderId reader;               // userId, agent_id or customerId in body or query; empty: none
  std::string_view fingerprint;  // from the body; any bytes, may be empty
};

// The verified part of a request's identity.
struct AuthResult {
  ReaderId reader;                  // empty: not signed in
  std::optional<VisitorId> cookie;  // from a valid visitor cookie, also of a signed-in reader
};

struct Principal {
  ReaderId reader;    // empty: anonymous
  VisitorId visitor;  // never empty
  // The visitor without the fingerprint, which a client can change at will. For quotas and
  // attribution.
  VisitorId stable_visitor;
  bool needs_cookie =
      false;  // anonymous and without a valid visitor cookie; a reply that is not cached may set one
};

struct VisitorCookie {
  VisitorId visitor;       // the visitor's id in requests that carry the cookie
  std::string set_cookie;  // the value of Set-Cookie
};

// Not thread-safe. Does no I/O; the caller reads the key files.
class Identity {
 public:
  // `salt` signs cookies and hides ids; changing it makes every visitor new. `trusts_proxy`:
  // X-Forwarded-Proto says whether the client came over TLS. Errors: kInvalid, "weak_key" or
  // "bad_key_id".
  static Result<Identity> create(IdentityMode mode, std::string_view salt,
                                 const std::map<std::string, std::string>& token_secrets = {},
                                 bool trusts_proxy = false);

  // Errors: kUnauthorised, "bad_token", "expired_token", or "bad_user" if the user that
  // auth_request found is not a valid id. At most two HMACs.
  Result<AuthResult> verify(const Request& request, UnixSeconds now);
  // At most two more HMACs.
  Principal identify(const Request& request, const AuthResult& verified, const ClaimedIdentity& claim);
  // verify() and identify() in one call.
  Result<Principal> identify(const Request& request, const ClaimedIdentity& claim, UnixSeconds now);

  // True if reader ids in body and query are trusted. A handler that must know whose data it shows
  // checks Principal::reader instead.
  bool trusts_claims(Zone zone) const { return mode_ == IdentityMode::kOpen || zone == Zone::kInternal; }

  // True if the client came over TLS, to nginx or to a trusted proxy.
  bool is_over_tls(const Request& request) const;

  // Makes a visitor of 16 random bytes, with a cookie that is valid for a year. `secure`:
  // is_over_tls(). Pages of other sites do not send the cookie (SameSite=Lax); other hosts of the
  // same site do. The visitor's id changes from "a…" to "c…" with the next request, so POST
  // /api/visitor sets the cookie at the start of a visit, before anything is counted.
  VisitorCookie issue_visitor_cookie(std::span<const unsigned char, 16> random, bool secure);
  // True if the visitor's id is that of a visitor cookie.
  static bool is_cookie_visitor(std::string_view visitor);
  // The value of a Set-Cookie that removes the visitor cookie.
  static std::string expired_visitor_cookie(bool secure);

  // The visitor id of a reader in UV counts and sessions. For an anonymous reader it is the
  // cookie's.
  VisitorId visitor_for_reader(const ReaderId& reader);
  // Replaces an id that a request names (session, fingerprint, event) in keys: an HMAC over `kind`,
  // the owner and the id, so that no key names a reader. 22 characters of [A-Za-z0-9_-].
  std::string pseudonym(std::string_view kind, std::string_view owner, std::string_view id);
  // pseudonym() of the address's network, and of the wider one around it.
  std::string network_pseudonym(std::string_view address);
  std::string wide_network_pseudonym(std::string_view address);
  // The name under which the number of the reader's erasures is stored. Cannot be linked to the
  // reader without the salt.
  std::string erasure_pseudonym(const ReaderId& reader);

  TokenKeys& tokens() { return tokens_; }

 private:
  Identity(IdentityMode mode, Hmac salt, TokenKeys tokens, bool trusts_proxy)
      : mode_(mode), salt_(std::move(salt)), tokens_(std::move(tokens)), trusts_proxy_(trusts_proxy) {}

  Result<ReaderId> verify_reader(const Request& request, UnixSeconds now);
  std::optional<VisitorId> visitor_from_cookie(const Request& request);

  IdentityMode mode_;
  Hmac salt_;
  TokenKeys tokens_;
  bool trusts_proxy_;
};

// The value of the named cookie in a Cookie header, the first if there are several; empty if
// absent.
std::string_view cookie_value(std::string_view header, std::string_view name);

// The part of an address that identifies a subscriber: 4 bytes of IPv4 (also if mapped into IPv6),
// 8 of IPv6. Text that is not an address is returned unchanged.
std::string subscriber_prefix(std::string_view address);
// The part that identifies its network: 3 bytes of IPv4, 6 of IPv6. Text that is not an address is
// returned unchanged.
std::string network_prefix(std::string_view address);
// The part that identifies its provider or a large part of it: 2 bytes of IPv4, 4 of IPv6. Text
// that is not an address is returned unchanged.
std::string wide_network_prefix(std::string_view address);

}  // namespace freshet::http
