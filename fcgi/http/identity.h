// Who is asking. Two answers: the *reader*, an id of the site's own users, known or not; and the
// *visitor*, which always exists and is what UV and dedup count.
//
// reader, by identity.mode:
//   header  what nginx's auth_request found (Request::verified_user)
//   token   a token in "Authorization: Bearer v1…", else in the cookie freshet_token. A bearer
//   token that is not valid is an
//           error; a cookie that is not is as if absent (a page with a stale cookie goes on,
//           anonymously)
//   open    nothing is verified
// An id that the request itself claims (body, query) is believed in mode `open`, and on the
// internal server in every mode; there it goes before the verified one. Elsewhere it is ignored.
//
// visitor, in this order; the first letter keeps the classes apart, so that no user's id can ever
// be another's visitor:
//   "u" + HMAC(salt, reader)                               the reader
//   "c" + the random id inside the cookie that we signed   freshet_visitor; over TLS
//   __Host-freshet_visitor, which no other host of the site can set, and that alone "a" +
//   HMAC(salt, fingerprint, User-Agent, address)     anybody else; of an IPv6 address the /64,
//   which is one subscriber
// Each is 23 characters of [A-Za-z0-9_-]; no raw id or address is stored anywhere by it.
#pragma once

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
// "header", "token" or "open"; anything else is header, the mode that believes nobody.
IdentityMode parse_identity_mode(std::string_view name);

// What the request says about itself.
struct ClaimedIdentity {
  ReaderId reader;               // userId, agent_id or customerId of body or query; empty: none
  std::string_view fingerprint;  // of the body; any bytes, may be empty
};

// What of a request is proven.
struct AuthResult {
  ReaderId reader;                  // empty: nobody is signed in
  std::optional<VisitorId> cookie;  // of a valid visitor cookie
};

struct Principal {
  ReaderId reader;    // empty: anonymous
  VisitorId visitor;  // never empty
  // The visitor as limits count them: without the fingerprint, which a client can change at will.
  VisitorId stable_visitor;
  bool needs_cookie =
      false;  // anonymous, and no valid visitor cookie came: a reply that no cache keeps may set one
};

struct VisitorCookie {
  VisitorId visitor;       // who the visitor will be once the cookie comes back
  std::string set_cookie;  // the value of Set-Cookie
};

// Not thread-safe. Does no I/O; the caller reads the key files.
class Identity {
 public:
  // `salt` signs cookies and hides ids; changing it makes every visitor new. Errors: kInvalid,
  // "weak_key" or "bad_key_id". `believes_proxy`: X-Forwarded-Proto says whether the client came over
  // TLS.
  static Result<Identity> create(IdentityMode mode, std::string_view salt,
                                 const std::map<std::string, std::string>& token_secrets = {},
                                 bool trusts_proxy = false);

  // Errors: kUnauthorised: "bad_token", "expired_token", or "bad_user" when what auth_request found
  // is no id. At most two HMACs.
  Result<AuthResult> verify(const Request& request, UnixSeconds now);
  // At most two more.
  Principal identify(const Request& request, const AuthResult& verified, const ClaimedIdentity& claim);
  // Both.
  Result<Principal> identify(const Request& request, const ClaimedIdentity& claim, UnixSeconds now);

  // True iff ids in body and query count. A handler that must know whose data it shows checks
  // Who::reader instead.
  bool trusts_claims(Zone zone) const { return mode_ == IdentityMode::kOpen || zone == Zone::kInternal; }

  // True iff the client came over TLS, to nginx or to a proxy that is believed.
  bool is_over_tls(const Request& request) const;

  // A new visitor from 16 random bytes; valid for a year. `secure`: over_tls(). The cookie does not
  // travel with requests of other sites' pages (SameSite=Lax); those of the same site's other hosts
  // send it. A visitor who counted as "a…" counts as "c…" from the next request: POST /api/visitor
  // sets the cookie where a visit begins, before anything is counted.
  VisitorCookie issue_visitor_cookie(std::span<const unsigned char, 16> random, bool secure);

  // What UV and sessions count as this reader.
  VisitorId visitor_for_reader(const ReaderId& reader);
  // What a key has of an id that a request names (a session, a fingerprint, an event): an HMAC over
  // `kind`, whose id it is and the id, so that no key names a reader. 22 characters of
  // [A-Za-z0-9_-].
  std::string pseudonym(std::string_view kind, std::string_view owner, std::string_view id);
  // What stands for the network of an address: as key_name().
  std::string network_pseudonym(std::string_view address);
  // The name under which it is kept how often the reader was erased; not to be told from others
  // without the salt.
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

// The value of the cookie of that name in a Cookie header; empty when absent. The first of several.
std::string_view cookie_value(std::string_view header, std::string_view name);

// What stands for an address: 4 bytes of IPv4 (also of one mapped into IPv6), 8 of IPv6; text that
// is no address as it is.
std::string subscriber_prefix(std::string_view address);
// What stands for its network: 3 bytes of IPv4, 6 of IPv6; text that is no address as it is.
std::string network_prefix(std::string_view address);

}  // namespace freshet::http
