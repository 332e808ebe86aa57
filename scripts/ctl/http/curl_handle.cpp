#include "scripts/ctl/http/curl_handle.h"

#include <new>

namespace freshet::ctl {

CurlHandle make_curl_handle() {
  static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
  CurlHandle handle(initialized == CURLE_OK ? curl_easy_init() : nullptr);
  if (!handle) throw std::bad_alloc();
  return handle;
}

void CurlHeaders::add(std::string_view name, std::string_view value) {
  std::string line(name);
  line += value.empty() ? ":" : ": ";
  line += value;
  curl_slist* const longer = curl_slist_append(list_.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)list_.release();
  list_.reset(longer);
}

bool ends_headers(std::string_view line, bool before) {
  if (line.starts_with("HTTP/")) return false;
  return before || line == "\r\n" || line == "\n";
}

std::string response_header(CURL* handle, const char* name) {
  curl_header* header = nullptr;
  const bool found = curl_easy_header(handle, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
  return found ? header->value : std::string();
}

std::optional<std::string> url_part(const std::string& url, CURLUPart part) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  if (!parsed) throw std::bad_alloc();
  char* text = nullptr;
  if (curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), CURLU_ALLOW_SPACE) != CURLUE_OK ||
      curl_url_get(parsed.get(), part, &text, 0) != CURLUE_OK)
    return std::nullopt;
  const std::unique_ptr<char, decltype(&curl_free)> owned(text, curl_free);
  return std::string(text);
}

}  // namespace freshet::ctl
