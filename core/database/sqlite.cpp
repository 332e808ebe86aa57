#include "core/database/sqlite.h"

#include <array>
#include <cerrno>

namespace freshet::database {
namespace {

struct ErrorMapping {
  int code;  // primary
  ErrorCode kind;
  std::string_view reason;
};

// Codes that are missing here are bugs: kInternal.
constexpr std::array kErrorMap{
    ErrorMapping{SQLITE_FULL, ErrorCode::kUnavailable, "disk_full"},
    ErrorMapping{SQLITE_READONLY, ErrorCode::kUnavailable, "database_readonly"},
    ErrorMapping{SQLITE_PERM, ErrorCode::kUnavailable, "database_readonly"},
    ErrorMapping{SQLITE_BUSY, ErrorCode::kUnavailable, "database_locked"},
    ErrorMapping{SQLITE_LOCKED, ErrorCode::kUnavailable, "database_locked"},
    ErrorMapping{SQLITE_PROTOCOL, ErrorCode::kUnavailable, "database_locked"},
    ErrorMapping{SQLITE_IOERR, ErrorCode::kUnavailable, "database_io"},
    ErrorMapping{SQLITE_NOMEM, ErrorCode::kUnavailable, "database_io"},
    ErrorMapping{SQLITE_CORRUPT, ErrorCode::kUnavailable, "database_corrupt"},
    ErrorMapping{SQLITE_NOTADB, ErrorCode::kUnavailable, "database_corrupt"},
    ErrorMapping{SQLITE_CANTOPEN, ErrorCode::kUnavailable, "database_absent"},
};

// The last errno of one of the connection's files. sqlite3_system_errno() does not report failures
// in COMMIT.
int last_errno(sqlite3* db, int file_operation) {
  sqlite3_file* file = nullptr;
  int out = 0;
  if (sqlite3_file_control(db, "main", file_operation, static_cast<void*>(&file)) != SQLITE_OK ||
      file == nullptr || file->pMethods == nullptr)
    return 0;
  file->pMethods->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &out);
  return out;
}

// The primary result code. A full disk is reported as SQLITE_FULL only for writes; other calls
// return SQLITE_IOERR or SQLITE_CANTOPEN, which are mapped here.
int primary_code(sqlite3* db, int code) {
  const int primary = code & 0xFF;
  if (db == nullptr || (primary != SQLITE_IOERR && primary != SQLITE_CANTOPEN)) return primary;
  for (const int last_error : {sqlite3_system_errno(db), last_errno(db, SQLITE_FCNTL_FILE_POINTER),
                               last_errno(db, SQLITE_FCNTL_JOURNAL_POINTER)}) {
    if (last_error == ENOSPC || last_error == EDQUOT || last_error == EFBIG) return SQLITE_FULL;
    if (last_error == EROFS) return SQLITE_READONLY;
  }
  return primary;
}

}  // namespace

Error sqlite_error(sqlite3* db, int code) {
  const int primary = primary_code(db, code);
  std::string detail = db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  detail += " (" + std::to_string(code) + ")";
  for (const ErrorMapping& row : kErrorMap) {
    if (row.code == primary) return Error{row.kind, row.reason, {}, detail};
  }
  return Error{ErrorCode::kInternal, "database_error", {}, detail};
}

// --- Statements

Result<PreparedStatement> PreparedStatement::prepare(sqlite3* db, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                      &statement, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(db, code));
  return PreparedStatement(statement);
}

PreparedStatement& PreparedStatement::bind(int index, std::string_view text) {
  // A null pointer would bind NULL instead of "".
  const char* const bytes = text.data() != nullptr ? text.data() : "";
  const int code =
      sqlite3_bind_text64(statement_.get(), index, bytes, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

PreparedStatement& PreparedStatement::bind(int index, std::int64_t value) {
  const int code = sqlite3_bind_int64(statement_.get(), index, value);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

PreparedStatement& PreparedStatement::bind(int index, std::optional<std::int64_t> value) {
  if (value) return bind(index, *value);
  const int code = sqlite3_bind_null(statement_.get(), index);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

Result<bool> PreparedStatement::step() {
  const int code = bind_error_ != SQLITE_OK ? bind_error_ : sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const Error error = sqlite_error(sqlite3_db_handle(statement_.get()), code);
  reset();
  return tl::unexpected(error);
}

Result<void> PreparedStatement::run() {
  for (;;) {
    FRESHET_TRY(row, step());
    if (!*row) break;
  }
  reset();
  return {};
}

PreparedStatement& PreparedStatement::bind(int index, std::optional<double> value) {
  const int code = value ? sqlite3_bind_double(statement_.get(), index, *value)
                         : sqlite3_bind_null(statement_.get(), index);
  if (bind_error_ == SQLITE_OK) bind_error_ = code;
  return *this;
}

std::string_view PreparedStatement::text(int column) const {
  const unsigned char* const bytes = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr
             ? std::string_view()
             : std::string_view(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::int64_t PreparedStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double PreparedStatement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }

bool PreparedStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

void PreparedStatement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bind_error_ = SQLITE_OK;
}

// --- Connections

Result<SqliteConnection> SqliteConnection::open(const std::string& path, int flags) {
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  SqliteConnection db(raw);  // also closes a connection that failed to open
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(raw, code));
  sqlite3_extended_result_codes(raw, 1);
  return db;
}

Result<void> SqliteConnection::execute(const char* sql) {
  const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(db_.get(), code));
  return {};
}

Result<std::int64_t> SqliteConnection::integer(const char* sql) {
  FRESHET_TRY(query, prepare(sql));
  FRESHET_TRY(row, query->step());
  return *row ? query->integer(0) : 0;
}

Result<void> SqliteConnection::add_function(const char* name, TextFunction function) {
  const auto call = [](sqlite3_context* context, int, sqlite3_value** arguments) {
    if (sqlite3_value_type(arguments[0]) != SQLITE_TEXT) return sqlite3_result_value(context, arguments[0]);
    const auto* const text = reinterpret_cast<const char*>(sqlite3_value_text(arguments[0]));
    const auto bytes = static_cast<std::size_t>(sqlite3_value_bytes(arguments[0]));
    const std::string out =
        reinterpret_cast<TextFunction>(sqlite3_user_data(context))(std::string_view(text, bytes));
    sqlite3_result_text(context, out.data(), static_cast<int>(out.size()), SQLITE_TRANSIENT);
  };
  const int code = sqlite3_create_function(db_.get(), name, 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC,
                                           reinterpret_cast<void*>(function), call, nullptr, nullptr);
  if (code != SQLITE_OK) return tl::unexpected(sqlite_error(db_.get(), code));
  return {};
}

bool SqliteConnection::file_moved() const {
  int answer = 0;
  return sqlite3_file_control(db_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &answer) == SQLITE_OK && answer != 0;
}

}  // namespace freshet::database
