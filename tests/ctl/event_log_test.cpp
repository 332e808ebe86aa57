#include "scripts/ctl/replay/event_log.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <variant>

#include "scripts/ctl/replay/csv.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::ctl;

namespace {

using Records = std::vector<std::vector<std::string>>;

// All records, or the error's detail.
std::variant<Records, std::string> read_csv(std::string_view text) {
  CsvReader reader(text);
  Records records;
  std::vector<std::string> fields;
  while (true) {
    const auto more = reader.next(fields);
    if (!more) return more.error().detail;
    if (!*more) return records;
    records.push_back(fields);
  }
}
Records records(std::string_view text) { return std::get<Records>(read_csv(text)); }
std::string csv_error(std::string_view text) { return std::get<std::string>(read_csv(text)); }

std::string quote(const std::string& field) {
  std::string out = "\"";
  for (const char c : field) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

UnixSeconds at(std::int64_t s) { return UnixSeconds{seconds{s}}; }

}  // namespace

TEST_CASE("quoted CSV fields may contain commas, quotes and line breaks", "[ctl]") {
  CHECK(records("a,b\n1,2\n") == Records{{"a", "b"}, {"1", "2"}});
  CHECK(records("\"a,\"\"x\"\"\",\"two\nlines\",\n") == Records{{"a,\"x\"", "two\nlines", ""}});
  CHECK(records("\xEF\xBB\xBF"
                "a,b\r\n\"1\",2\r\n\r\n3,4") == Records{{"a", "b"}, {"1", "2"}, {"3", "4"}});
  CHECK(records("").empty());
}

TEST_CASE("malformed CSV is rejected with its line", "[ctl]") {
  CHECK(csv_error("a\n\"b") == "line 2: unterminated quoted field");
  CHECK(csv_error("a,b\"c\n") == "line 1: quote inside an unquoted field");
  CHECK(csv_error("\"a\nb\",c\n\"d\"e\n") == "line 3: text after a quoted field");
}

TEST_CASE("quoted CSV round-trips for any field contents", "[ctl]") {
  CHECK(rc::check("read(write(records)) = records", [](std::vector<std::vector<std::string>> wanted) {
    std::string text;
    std::erase_if(wanted, [](const auto& record) { return record.empty(); });
    for (const auto& record : wanted) {
      for (std::size_t i = 0; i < record.size(); ++i) text += (i ? "," : "") + quote(record[i]);
      text += "\r\n";
    }
    RC_ASSERT(records(text) == wanted);
  }));
}

TEST_CASE("Deskdrop's log is read by column names, sorted by time, with quoted user agents", "[ctl]") {
  const auto log = parse_deskdrop(
      "eventType,timestamp,contentId,personId,sessionId,userAgent,userCountry\n"
      "LIKE,1465413050,-34,7,100,,\n"
      "VIEW,1465413032,-34,7,100,\"Mozilla/5.0 (X11) (KHTML, like Gecko)\",US\n"
      "VIEW,1465413050,56,8,200,,\n");
  REQUIRE(log);
  REQUIRE(log->size() == 3);
  CHECK((*log)[0].at == at(1465413032));
  CHECK((*log)[0].user_agent == "Mozilla/5.0 (X11) (KHTML, like Gecko)");
  CHECK((*log)[0].dwell_ms == 18000);
  CHECK((*log)[1].type == "LIKE");  // order of the file within a second
  CHECK((*log)[1].item == "-34");
  CHECK((*log)[2].item == "56");
}

TEST_CASE("a malformed log is rejected with its line", "[ctl]") {
  const auto detail = [](const auto& result) { return error_of(result).detail; };
  CHECK(detail(parse_deskdrop("timestamp,eventType\n")) == "line 1: no column contentId");
  const std::string head = "timestamp,eventType,contentId,personId,sessionId,userAgent\n";
  CHECK(detail(parse_deskdrop(head + "1,V,2\n")) == "line 2: number of fields differs from the first line");
  CHECK_THAT(detail(parse_deskdrop(head + "x1,V,2,3,4,\n")), Catch::StartsWith("line 2: timestamp"));
  CHECK_THAT(detail(parse_events("{\"at\":1,\"item\":\"1\",\"user\":\"2\"}\n\n{\"at\":1}\n")),
             Catch::StartsWith("line 3: item"));
  CHECK_THAT(detail(parse_events("nonsense\n")), Catch::StartsWith("line 1: "));
  CHECK_THAT(detail(parse_events("{\"at\":1,\"item\":\"1\",\"user\":\"2\",\"dwellMs\":-1}")),
             Catch::StartsWith("line 1: dwellMs"));
}

TEST_CASE("a user agent of a log cannot inject a header", "[ctl]") {
  const auto log = parse_events(R"({"at":1,"item":"1","user":"2","userAgent":"a\r\nX-Evil: 1"})");
  REQUIRE(log);
  CHECK(log->front().user_agent == "aX-Evil: 1");
}

TEST_CASE("dwell is the time to the session's next event, capped, and zero for the last event", "[ctl]") {
  std::vector<LogEvent> events;
  for (const auto& [t, session] :
       {std::pair{0, "a"}, {5, "b"}, {12, "a"}, {500, "a"}, {501, ""}, {502, ""}}) {
    events.push_back({at(t), "VIEW", "i", "u", session, "", 0});
  }
  derive_dwell(events);
  std::vector<std::int64_t> dwell;
  for (const LogEvent& each : events) dwell.push_back(each.dwell_ms);
  CHECK(dwell == std::vector<std::int64_t>{12000, 0, 180000, 0, 0, 0});
}

TEST_CASE("a selection is half open in time and its limit counts selected events", "[ctl]") {
  std::vector<LogEvent> events;
  for (int t = 0; t < 10; ++t)
    events.push_back({at(t), t % 2 ? "VIEW" : "LIKE", std::to_string(t), "u", "", "", 0});
  Selection selection;
  selection.from = at(2);
  selection.until = at(8);
  selection.types = {"LIKE"};
  CHECK(filter_events(events, selection).size() == 3);  // 2, 4 and 6
  selection.limit = 2;
  const auto chosen = filter_events(events, selection);
  REQUIRE(chosen.size() == 2);
  CHECK(chosen[0].item == "2");
  CHECK(chosen[1].item == "4");
}

TEST_CASE("an item's publish time comes from the items, else from its first event", "[ctl]") {
  EventLog log;
  log.events = {{at(50), "VIEW", "known", "u", "", "", 0},
                {at(60), "VIEW", "new", "u", "", "", 0},
                {at(70), "VIEW", "new", "u", "", "", 0}};
  log.items["known"] = {at(10), "Title"};
  const auto times = publish_times(log);
  CHECK(times.at("known") == at(10));
  CHECK(times.at("new") == at(60));
}

TEST_CASE(
    "the shipped sample is small, sorted, refers to its own items only and has no event before publication",
    "[ctl]") {
  const std::string directory = FRESHET_SAMPLE;
  const auto items = read_file(directory + "/items.ndjson"), events = read_file(directory + "/events.ndjson");
  REQUIRE(items);
  REQUIRE(events);
  CHECK(items->size() + events->size() <= 2000000);
  const auto log = read_log(directory);
  REQUIRE(log);
  CHECK(log->items.size() == 612);
  CHECK(log->events.size() == 16555);
  int unknown_items = 0, early = 0;
  for (const LogEvent& each : log->events) {
    const auto item = log->items.find(each.item);
    unknown_items += item == log->items.end() ? 1 : 0;
    early += item != log->items.end() && each.at < item->second.published ? 1 : 0;
  }
  CHECK(unknown_items == 0);
  CHECK(early == 0);
}
