// RAII wrappers of SQLite's C interface: connections, prepared statements and error mapping. Used
// in core/database only.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace freshet::database {

// The Error for `code`, returned by the last call on `db`. database.h lists the reasons.
Error sqlite_error(sqlite3* db, int code);

// A reusable prepared statement. Parameters count from 1, columns from 0. Text is bound with its
// length and may contain NULs.
class PreparedStatement {
 public:
  PreparedStatement() = default;
  static Result<PreparedStatement> prepare(sqlite3* db, std::string_view sql);

  // Bound text must live until reset().
  PreparedStatement& bind(int index, std::string_view text);
  PreparedStatement& bind(int index, std::int64_t value);
  PreparedStatement& bind(int index, std::optional<std::int64_t> value);
  PreparedStatement& bind(int index, std::optional<double> value);
  Result<bool> step();                      // true: a row; false: finished
  Result<void> run();                       // runs to completion, ignoring rows, and resets
  std::string_view text(int column) const;  // valid until the next step() or reset()
  std::int64_t integer(int column) const;
  double real(int column) const;
  bool is_null(int column) const;
  void reset();  // clears bindings and releases locks

 private:
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  explicit PreparedStatement(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
  int bind_error_ = SQLITE_OK;  // the first bind error
};

class SqliteConnection {
 public:
  // `flags` of sqlite3_open_v2.
  static Result<SqliteConnection> open(const std::string& path, int flags);

  Result<void> execute(const char* sql);          // any number of statements, without parameters
  Result<std::int64_t> integer(const char* sql);  // the first column of the first row; 0 if there is none
  Result<PreparedStatement> prepare(std::string_view sql) {
    return PreparedStatement::prepare(db_.get(), sql);
  }
  // Makes a function of one text, such as nfc(), available to SQL. Other types are returned as they
  // are.
  using TextFunction = std::string (*)(std::string_view);
  Result<void> add_function(const char* name, TextFunction function);
  bool in_transaction() const { return sqlite3_get_autocommit(db_.get()) == 0; }
  // Opened read-only, or the file allows no more.
  bool is_read_only() const { return sqlite3_db_readonly(db_.get(), "main") == 1; }
  // Returns whether the file at the path was deleted or replaced since it was opened.
  bool file_moved() const;
  std::int64_t last_insert_rowid() const { return sqlite3_last_insert_rowid(db_.get()); }
  int changes() const { return sqlite3_changes(db_.get()); }  // rows changed by the last statement

 private:
  struct Closer {
    void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
  };
  explicit SqliteConnection(sqlite3* db) : db_(db) {}
  std::unique_ptr<sqlite3, Closer> db_;
};

}  // namespace freshet::database
