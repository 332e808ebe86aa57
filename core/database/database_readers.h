// Readers' interactions, dismissals and follows in SQLite: the complete record, of which Redis
// holds the newest part. Part of a Database (database.h), and shares its transactions, threading
// rules and errors.
//
// Erasure: secure_delete overwrites deleted rows and freed pages, but not the copies that SQLite
// leaves in the unused part of a page when it moves rows to a neighboring page (measured: 2 of 200
// erased readers were still in the file). Therefore a reader's id is stored only in one small
// table, which is rewritten on erasure; other tables refer to readers by number.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/readers/ports.h"

namespace freshet::database {

class SqliteConnection;

class ReaderRows {
 public:
  // `db` must outlive this object and have the current schema version.
  static Result<ReaderRows> create(SqliteConnection& db);
  ReaderRows(ReaderRows&&) noexcept;
  ReaderRows& operator=(ReaderRows&&) noexcept;
  ~ReaderRows();

  // Idempotent. O(log rows).
  Result<void> put_interaction(const readers::ReaderEvent& event);
  // Inserts or replaces by reader and item. Keeps a stored dismissal that is newer.
  Result<void> put_dismissal(const readers::Dismissal& dismissal, UnixSeconds at);
  // Keeps a dismissal that is newer than `at`.
  Result<void> remove_dismissal(const ReaderId& reader, const ItemId& item, UnixSeconds at);
  // Keeps the time of a follow that is already stored.
  Result<void> put_follow(const readers::Follow& follow);
  Result<void> remove_follow(const ReaderId& reader, const AuthorId& author);
  // Moves all rows of one reader to another, who keeps the newer of two dismissals, and returns how
  // many there were. O(their rows).
  Result<std::int64_t> move(const ReaderId& from, const ReaderId& to);
  // Deletes all data of the readers and returns the number of rows; ids without data are ignored.
  // After commit and Database::truncate_wal() the database's files contain no byte of the ids.
  // O(their rows + all readers): about a second for a million readers.
  Result<std::int64_t> erase(const std::vector<ReaderId>& readers);

  // Calls `each` reader by reader; interactions of a reader come oldest first. One snapshot. Stops
  // at the first error of `each` and returns it.
  using EachInteraction = std::function<Result<void>(const readers::ReaderEvent&)>;
  Result<void> for_each_interaction(const EachInteraction& each);
  using EachDismissal = std::function<Result<void>(const readers::DismissalRecord&)>;
  Result<void> for_each_dismissal(const EachDismissal& each);
  using EachFollow = std::function<Result<void>(const readers::Follow&)>;
  Result<void> for_each_follow(const EachFollow& each);
  // Rows of one reader, oldest first: at most `limit`, starting at index `offset`.
  // O(offset + limit).
  Result<std::vector<readers::ReaderEvent>> interactions_of(const ReaderId& reader, std::int64_t offset,
                                                            std::int64_t limit);
  Result<std::vector<readers::DismissalRecord>> dismissals_of(const ReaderId& reader, std::int64_t limit);
  Result<std::vector<readers::Follow>> follows_of(const ReaderId& reader, std::int64_t limit);
  Result<std::int64_t> count_interactions();  // O(rows)

 private:
  struct Impl;
  explicit ReaderRows(std::unique_ptr<Impl> state);
  std::unique_ptr<Impl> impl_;
};

}  // namespace freshet::database
