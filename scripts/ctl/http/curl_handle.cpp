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

std::string response_header(CURL* handle, const char* name) {
  curl_header* header = nullptr;
  const bool found = curl_easy_header(handle, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
  return found ? header->value : std::string();
}

}  // namespace freshet::ctl
