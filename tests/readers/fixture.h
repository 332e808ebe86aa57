// Test fixture for the reader store.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/readers/reader_store.h"
#include "core/readers/spool_records.h"
#include "tests/support/store_fixture.h"

namespace freshet::test {

inline const ReaderId kReader = ReaderId::trusted("reader");

struct ReaderFixture : Fixture {
  std::optional<readers::RedisReaderStore> instance;

  ReaderFixture() {
    open();
    reopen();
  }
  // Reopens the store after `settings` changed.
  void reopen() {
    write_queue.apply = [this](const auto& fields) { return readers::apply_spool_record(*instance, fields); };
    instance.emplace(redis, write_queue, settings, keys(),
                     [this] { return "made-" + std::to_string(++events); });
  }
  readers::RedisReaderStore& store() { return *instance; }

  static readers::View make_view(const std::string& item, const std::string& reader = "reader",
                                 readers::ViewKind kind = readers::ViewKind::kTopic) {
    return {ReaderId::trusted(reader), ItemId::trusted(item), kind};
  }
  static readers::ReaderEvent make_event(const std::string& item, readers::Interaction kind,
                                         UnixSeconds at = UnixSeconds::max(), const std::string& id = {}) {
    return {kReader, ItemId::trusted(item), kind, at, EventId::trusted(id)};
  }
  void view(const std::string& item, const std::string& reader = "reader",
            readers::ViewKind kind = readers::ViewKind::kTopic) {
    REQUIRE(run_sync(store().record_view(make_view(item, reader, kind))));
  }
  std::vector<readers::ViewedItem> views(const std::string& reader = "reader",
                                         readers::ViewKind kind = readers::ViewKind::kTopic) {
    auto out = run_sync(store().views(ReaderId::trusted(reader), kind));
    REQUIRE(out);
    return *out;
  }
  std::vector<std::string> history(const std::string& reader = "reader",
                                   readers::ViewKind kind = readers::ViewKind::kTopic) {
    std::vector<std::string> out;
    for (const auto& each : views(reader, kind)) out.push_back(each.item.str());
    return out;
  }
  Result<void> interact(const readers::ReaderEvent& one) {
    auto answers = run_sync(store().record_interactions({one}));
    REQUIRE(answers);
    REQUIRE(answers->size() == 1);
    return answers->front();
  }
  Result<void> dismiss(const std::string& item, const std::string& reason = {}, const std::string& id = {}) {
    return run_sync(store().dismiss({kReader, ItemId::trusted(item), reason, EventId::trusted(id)}));
  }
  readers::ReaderState read(const ReaderId& reader = kReader) {
    auto out = run_sync(store().read(reader));
    REQUIRE(out);
    return *out;
  }
  // Number of views in the hash of times, without the fields for clearing.
  std::int64_t recorded_times(const std::string& reader = "reader") {
    const auto fields = command("HKEYS", keys().view_times(reader));
    std::int64_t out = 0;
    for (std::size_t i = 0; i < fields.size(); ++i)
      out += redis::string_at(fields, i).find(':') == std::string_view::npos ? 0 : 1;
    return out;
  }
  // Each entry of the stream as "op=… reader=…", oldest first.
  std::vector<std::string> stream_entries() {
    const auto entries = command("XRANGE", keys().partition(0).stream(), "-", "+");
    std::vector<std::string> out;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const auto fields = entries[i][1];
      std::string line;
      for (std::size_t j = 0; j + 1 < fields.size(); j += 2)
        line.append(line.empty() ? "" : " ")
            .append(redis::string_at(fields, j))
            .append("=")
            .append(redis::string_at(fields, j + 1));
      out.push_back(std::move(line));
    }
    return out;
  }
  std::int64_t bytes(const std::string& key) {
    return command("MEMORY", "USAGE", key, "SAMPLES", 0).integer().value_or(0);
  }
};

inline std::vector<std::string> ids_of(const std::vector<readers::ViewedItem>& views) {
  std::vector<std::string> out;
  for (const auto& each : views) out.push_back(each.item.str());
  return out;
}

}  // namespace freshet::test
