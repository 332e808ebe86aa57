// Pseudonyms of readers, for code in core that knows neither the salt nor HMAC.
#pragma once

#include "core/readers/personal_keys.h"
#include "fcgi/http/identity.h"

namespace freshet {

// `identity` must outlive the result.
inline readers::ReaderPseudonyms reader_hashes(http::Identity& identity) {
  return {[&identity](const ReaderId& reader) { return identity.visitor_for_reader(reader).str(); },
          [&identity](const ReaderId& reader) { return identity.erasure_pseudonym(reader); }};
}

}  // namespace freshet
