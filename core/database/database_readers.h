// What readers did and do not want, and whom they follow, in SQLite: all of it, where Redis keeps
// the newest. Part of a Database (database.h), whose transactions, threads and errors are its own
// too.
//
// Erasing. secure_delete overwrites rows that are deleted and pages that are freed, but not the
// copies which SQLite leaves in the unused part of a page when it moves rows to a neighbour
// (measured: 2 of 200 readers could still be read in the file). So a reader's id stands in one
// small table, and erasing writes that table anew, without it; rows of the others name readers by
// number.
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
  // `db` must outlive this and be of this version.
  static Result<ReaderRows> create(SqliteConnection& db);
  ReaderRows(ReaderRows&&) noexcept;
  ReaderRows& operator=(ReaderRows&&) noexcept;
  ~ReaderRows();

  // Writing the same again changes nothing. O(log rows).
  Result<void> put_interaction(const readers::ReaderEvent& event);
  // Adds or replaces, by reader and item. A later one that is there already stays.
  Result<void> put_dismissal(const readers::Dismissal& dismissal, UnixSeconds at);
  // Unless the dismissal is later than `at`.
  Result<void> remove_dismissal(const ReaderId& reader, const ItemId& item, UnixSeconds at);
  // Adds or replaces, by reader and author.
  Result<void> put_follow(const readers::Follow& follow);
  Result<void> remove_follow(const ReaderId& reader, const AuthorId& author);
  // Everything about them; unknown ones are no error. Returns the rows removed. After the commit
  // and Database::truncate_log() no byte of the ids is left in the database's files. O(their rows +
  // all readers): about a second for a million.
  Result<std::int64_t> erase(const std::vector<ReaderId>& readers);

  // Reader by reader; of each, interactions come oldest first. As of the call; stops at the first
  // error that `each` returns, and returns it.
  using EachInteraction = std::function<Result<void>(const readers::ReaderEvent&)>;
  Result<void> for_each_interaction(const EachInteraction& each);
  using EachDismissal = std::function<Result<void>(const readers::DismissalRecord&)>;
  Result<void> for_each_dismissal(const EachDismissal& each);
  using EachFollow = std::function<Result<void>(const readers::Follow&)>;
  Result<void> for_each_follow(const EachFollow& each);
  // Of one reader, oldest first: at most `most`, from the number `from` on. O(from + most).
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
