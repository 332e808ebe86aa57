// The contents of crawlers.txt, embedded at build time.
#pragma once

#include <cstddef>

namespace freshet::http {

extern const char kCrawlers[];
extern const std::size_t kCrawlersBytes;

}  // namespace freshet::http
