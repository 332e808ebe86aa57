// libfcgi as a pure codec: bytes to a Request, a Response to bytes. Does no I/O.
//
// The static libfcgi.a calls eight functions of <fcgios.h> for input and output. os_layer.cpp
// implements them over memory, so the archive member with libfcgi's own sockets, waits and signal
// handlers is never linked, and nothing in libfcgi can block a worker.
#pragma once

#include <fcgiapp.h>

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "fcgi/gateway/request.h"

namespace freshet::gateway {

// The codec of one connection. decode() and encode() alternate; the views in the Request stay valid
// until encode() or end_request(). Not thread-safe; a thread may have any number of codecs.
class Codec {
 public:
  Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;
  ~Codec();

  // Decodes a request that framing found complete. Replies that libfcgi makes itself (GET_VALUES)
  // are appended to `wire`. Errors: kInvalid, "bad_fastcgi" if libfcgi rejects the request or its
  // body is not CONTENT_LENGTH bytes; the connection must then be closed.
  Result<void> decode(std::string_view bytes, Request& request, std::string& wire);
  // Appends the reply's records to `wire` and ends the request. HEAD, 204 and 304 have no body.
  void encode(const Request& request, const Response& response, std::string& wire);
  // Like encode(), but the views in the Request stay valid until end_request(): for a request that
  // is answered while its handler is still running.
  void encode_reply(const Request& request, const Response& response, std::string& wire);
  // Ends the request without a (further) reply.
  void end_request();

 private:
  void read_params(Request& request, std::string_view& content_length) const;

  FCGX_Request fcgx_{};
  std::string head_;  // the reply's head; a member so that its memory is reused
};

}  // namespace freshet::gateway
