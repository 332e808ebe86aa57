// The formats that `freshetctl import` reads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace freshet::ctl {

enum class SourceFormat : std::uint8_t { kNdjson, kFeed, kSitemap, kWxr, kGhost, kMarkdown, kCsv, kOutbox };

constexpr std::string_view name_of(SourceFormat format) {
  constexpr std::array<std::string_view, 8> kNames{"NDJSON",       "feed",     "sitemap", "WordPress export",
                                                   "Ghost export", "Markdown", "CSV",     "outbox"};
  return kNames[static_cast<std::size_t>(format)];
}

// The format of a file by its beginning, of which 4 KiB suffice; nullopt if it is not clear. Never
// kMarkdown, which is a folder.
std::optional<SourceFormat> detect_format(std::string_view beginning);

}  // namespace freshet::ctl
