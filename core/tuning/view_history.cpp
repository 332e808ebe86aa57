#include "core/tuning/view_history.h"

#include <unordered_map>

#include "core/database/database_schema.h"
#include "core/database/sqlite.h"

namespace freshet::tuning {
namespace {

// Runs `sql` and calls `visit` for every row.
template <class Visit>
Result<void> for_each_row(database::SqliteConnection& db, std::string_view sql, Visit visit) {
  FRESHET_TRY(query, db.prepare(sql));
  for (;;) {
    FRESHET_TRY(more, query->step());
    if (!*more) return {};
    visit(*query);
  }
}

}  // namespace

Result<ViewHistory> read_view_history(const std::string& database, UnixSeconds now, seconds period) {
  FRESHET_TRY(db, database::SqliteConnection::open(database, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX));
  if (auto ok = database::prepare_file(*db, false); !ok) return tl::unexpected(ok.error());
  // One snapshot for both queries; it ends with the connection.
  if (auto ok = db->execute("BEGIN"); !ok) return tl::unexpected(ok.error());
  ViewHistory out{{}, {}, now, {}};
  std::unordered_map<std::string, std::uint32_t> items;
  const auto index_of = [&](std::string_view id) {
    const auto [at, is_new] = items.emplace(id, static_cast<std::uint32_t>(items.size()));
    if (is_new) {
      out.published.emplace_back();
      out.ids.emplace_back(id);
    }
    return at->second;
  };
  auto read =
      for_each_row(*db, "SELECT item, bucket, seconds, views FROM view_counts",
                   [&](const database::PreparedStatement& row) {
                     out.counts.push_back({index_of(row.text(0)), UnixSeconds{seconds{row.integer(1)}},
                                           seconds{row.integer(2)}, row.integer(3)});
                   });
  if (!read) return tl::unexpected(read.error());
  read = for_each_row(*db, "SELECT id, published_at, hidden FROM items",
                      [&](const database::PreparedStatement& row) {
                        const UnixSeconds published{seconds{row.integer(1)}};
                        const bool is_viewed = items.contains(std::string(row.text(0)));
                        if (is_viewed || (row.integer(2) == 0 && published > now - period))
                          out.published[index_of(row.text(0))] = published;
                      });
  if (!read) return tl::unexpected(read.error());
  return out;
}

}  // namespace freshet::tuning
