// libFuzzer: no token, page token, cookie or Authorization header crashes its verification, and
// none is accepted unless signing what it names gives the same text: modified ones are refused.
// (libFuzzer copies operands of comparisons into its inputs, so an input can hold a genuine one.)
#include <array>
#include <set>
#include <string>

#include "fcgi/http/identity.h"
#include "fcgi/http/page_token.h"
#include "fcgi/http/token.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace freshet;
using fuzz::Input;
using fuzz::require;

constexpr std::string_view kSalt = "0123456789abcdef0123456789abcdef";
const UnixSeconds kNow{seconds{1'700'000'000}};

// Replaces a part of `genuine` with bytes of the input.
std::string modified(std::string genuine, Input& input) {
  const std::size_t at = input.number<std::uint8_t>() % (genuine.size() + 1);
  const std::size_t cut = input.number<std::uint8_t>() % 8;
  const std::string_view replacement = input.text(input.number<std::uint8_t>() % 8);
  return genuine.replace(at, cut, replacement);
}

std::optional<VisitorId> cookie_of(http::Identity& identity, std::string_view header) {
  Request request;
  request.cookie = header;
  request.authorization = header;
  const auto verified = identity.verify(request, kNow);
  if (!verified) return std::nullopt;
  require(verified->reader.empty());
  return verified->cookie;
}

// The token for `reader` with the key id and expiry of `token`.
std::string sign_again(http::TokenKeys& keys, const ReaderId& reader, std::string_view token) {
  const std::size_t kid = token.find('.') + 1;
  const std::size_t mac = token.rfind('.');
  const std::size_t expiry = token.rfind('.', mac - 1) + 1;
  const seconds expires{std::stoll(std::string(token.substr(expiry, mac - expiry)))};
  return *keys.sign(std::string(token.substr(kid, token.find('.', kid) - kid)), reader, UnixSeconds{expires});
}

// The visitors of all cookies that the runs issue.
std::set<std::string> issue_all(http::Identity& identity) {
  std::set<std::string> visitors;
  for (unsigned first = 0; first < 256; ++first) {
    std::array<unsigned char, 16> random{};
    random[0] = static_cast<unsigned char>(first);
    visitors.insert(identity.issue_visitor_cookie(random, false).visitor.str());
  }
  return visitors;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static auto keys = *http::TokenKeys::create({{"k1", std::string(kSalt)}, {"k2", std::string(32, 'y')}});
  static auto pages = *http::PageTokenSigner::create(kSalt);
  static auto identity =
      *http::Identity::create(http::IdentityMode::kToken, kSalt, {{"k1", std::string(kSalt)}});
  static const std::set<std::string> issued = issue_all(identity);
  Input input(bytes, size);
  const auto reader = ReaderId::parse(input.text(input.number<std::uint8_t>() % 24), "userId");
  const auto reader_id = reader && !reader->empty() ? *reader : ReaderId::trusted("ann");

  const std::string token = *keys.sign("k1", reader_id, kNow + seconds{60});
  require(keys.verify(token, kNow) == reader_id);
  require(!keys.verify(token, kNow + seconds{60}));
  const std::string other = modified(token, input);
  require(other == token || !keys.verify(other, kNow));

  const http::FeedPageId page{input.number<std::uint32_t>(), input.number<std::uint16_t>()};
  const std::string page_token = pages.sign(reader_id, page);
  const auto verified = pages.verify(reader_id, page_token);
  require(verified && verified->generation == page.generation && verified->sequence == page.sequence);
  const std::string other_page_token = modified(page_token, input);
  require(other_page_token == page_token || !pages.verify(reader_id, other_page_token));
  require(!pages.verify(ReaderId::trusted("another reader"), page_token));

  std::array<unsigned char, 16> random{};
  random[0] = input.number<std::uint8_t>();
  const auto visitor = identity.issue_visitor_cookie(random, false);
  const std::string cookie = visitor.set_cookie.substr(0, visitor.set_cookie.find(';'));
  require(cookie_of(identity, cookie) == visitor.visitor);
  const auto known = cookie_of(identity, modified(cookie, input));
  require(!known || *known == visitor.visitor);

  const std::string_view text = input.rest();
  if (const auto named = keys.verify(text, kNow)) require(sign_again(keys, *named, text) == text);
  if (const auto named = pages.verify(reader_id, text)) require(pages.sign(reader_id, *named) == text);
  if (const auto named = cookie_of(identity, text)) require(issued.contains(named->str()));
  const std::string_view value = http::cookie_value(text, "freshet_visitor");
  require(value.empty() || text.find(value) != text.npos);
  require(http::network_prefix(text).size() <= http::subscriber_prefix(text).size());
  return 0;
}
