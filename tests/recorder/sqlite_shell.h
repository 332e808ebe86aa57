// A second connection to the recorder's database, to simulate an administrator or a fault.
#pragma once

#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <string>

namespace freshet::test {

class SqliteShell {
 public:
  explicit SqliteShell(const std::string& path) {
    REQUIRE(sqlite3_open(path.c_str(), &db_) == SQLITE_OK);
    sqlite3_busy_timeout(db_, 10000);
  }
  ~SqliteShell() { sqlite3_close(db_); }
  SqliteShell(const SqliteShell&) = delete;
  SqliteShell& operator=(const SqliteShell&) = delete;

  // Returns the first column of the first row, or "".
  std::string run(const std::string& sql) {
    std::string out;
    char* error = nullptr;
    const auto keep = [](void* to, int, char** values, char**) {
      auto& text = *static_cast<std::string*>(to);
      if (text.empty() && values[0] != nullptr) text = values[0];
      return 0;
    };
    sqlite3_exec(db_, sql.c_str(), keep, &out, &error);
    INFO(sql << ": " << (error != nullptr ? error : ""));
    REQUIRE(error == nullptr);
    return out;
  }

 private:
  sqlite3* db_ = nullptr;
};

}  // namespace freshet::test
