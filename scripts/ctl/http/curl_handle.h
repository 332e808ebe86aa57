// Owners of libcurl's objects.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace freshet::ctl {

struct CurlDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;

// Throws std::bad_alloc.
CurlHandle make_curl_handle();

// Header lines of a request.
class CurlHeaders {
 public:
  // Replaces curl's own header of that name. An empty value removes it.
  void add(std::string_view name, std::string_view value);
  // Valid until the next add().
  curl_slist* get() const { return list_.get(); }

 private:
  std::unique_ptr<curl_slist, CurlDeleter> list_;
};

// Returns whether a reply's headers are complete after this line of them: curl reports a connection
// that is closed within them as a success. Lines after the empty one are trailers. `before`: the
// result for the previous line.
bool ends_headers(std::string_view line, bool before);

// The last reply's header of that name; empty if it has none.
std::string response_header(CURL* handle, const char* name);

// A part of an absolute URL, as it is written there, which may contain spaces. nullopt if the URL
// is not valid or has no such part.
std::optional<std::string> url_part(const std::string& url, CURLUPart part);

}  // namespace freshet::ctl
