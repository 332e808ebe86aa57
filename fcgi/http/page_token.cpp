#include "fcgi/http/page_token.h"

#include <charconv>
#include <optional>

namespace freshet::http {
namespace {

// Accepts only the text that std::to_string() produces for the value.
std::optional<std::int64_t> parse_canonical(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text)
    return std::nullopt;
  return value;
}

tl::unexpected<Error> bad_page() {
  return fail(ErrorCode::kInvalid, "bad_page", "page", "is not a page that this reader received");
}

}  // namespace

Result<PageTokenSigner> PageTokenSigner::create(std::string_view salt) {
  FRESHET_TRY(hmac, Hmac::create(salt));
  return PageTokenSigner(std::move(*hmac));
}

std::string PageTokenSigner::compute_mac(const ReaderId& reader, std::string_view generation,
                                         std::string_view sequence) {
  return truncated_base64url(hmac_.compute_fields({"feed page", reader.view(), generation, sequence}));
}

std::string PageTokenSigner::sign(const ReaderId& reader, FeedPageId page) {
  const std::string generation = std::to_string(page.generation), sequence = std::to_string(page.sequence);
  return generation + "." + sequence + "." + compute_mac(reader, generation, sequence);
}

Result<FeedPageId> PageTokenSigner::verify(const ReaderId& reader, std::string_view token) {
  const std::size_t first = token.find('.');
  const std::size_t second = first == token.npos ? token.npos : token.find('.', first + 1);
  if (second == token.npos) return bad_page();
  const std::string_view generation = token.substr(0, first);
  const std::string_view sequence = token.substr(first + 1, second - first - 1);
  const auto g = parse_canonical(generation), s = parse_canonical(sequence);
  if (!g || !s) return bad_page();
  if (!constant_time_equal(token.substr(second + 1), compute_mac(reader, generation, sequence)))
    return bad_page();
  return FeedPageId{*g, *s};
}

}  // namespace freshet::http
