#include "fcgi/http/etag.h"

#include <xxhash.h>

#include "core/base/hex.h"

namespace freshet::http {

namespace {

constexpr std::string_view kEtagPrefix = "ETag: ";
constexpr std::string_view kLineEnd = "\r\n";

// The value of the ETag header in `headers`; empty if there is none.
std::string_view find_etag(std::string_view headers) {
  const std::size_t at = headers.find(kEtagPrefix);
  if (at == headers.npos) return {};
  headers.remove_prefix(at + kEtagPrefix.size());
  return headers.substr(0, headers.find(kLineEnd));
}

}  // namespace

std::string compute_etag(std::string_view body) {
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits(body.data(), body.size()));
  std::string tag = "\"";
  for (const unsigned char byte : hash.digest) append_hex(tag, byte);
  return tag.append("\"");
}

bool matches_etag(std::string_view if_none_match, std::string_view etag) {
  if (if_none_match == "*") return true;
  // Tags contain no quotes, so the text between two quotes is a tag or the separator of two tags.
  for (;;) {
    const std::size_t begin = if_none_match.find('"');
    if (begin == if_none_match.npos) return false;
    const std::size_t end = if_none_match.find('"', begin + 1);
    if (end == if_none_match.npos) return false;
    if (if_none_match.substr(begin, end + 1 - begin) == etag) return true;
    if_none_match.remove_prefix(end + 1);
  }
}

void apply_if_none_match(const Request& request, Response& response) {
  if (response.status != 200 || response.body.empty()) return;
  std::string tag(find_etag(response.headers));
  if (tag.empty()) {
    if (response.headers.find("Freshet-Degraded: ") != std::string::npos) return;
    tag = compute_etag(response.body);
    response.headers.append(kEtagPrefix).append(tag).append(kLineEnd);
  }
  if (!matches_etag(request.if_none_match, tag)) return;
  response.status = 304;
  response.body.clear();
}

}  // namespace freshet::http
