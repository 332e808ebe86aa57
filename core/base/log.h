// Logging: key=value lines on stderr (for journald) or in a file, through spdlog. Control
// characters in values are escaped. Thread-safe, including open() and reopen().
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace freshet::log {

enum class Level { kDebug, kNotice, kWarning, kError };
using Field = std::pair<std::string_view, std::string>;

// `target` is "stderr" or a file's path; `level` is debug, notice, warning or error. Call once in
// each process; until then lines go to stderr at level notice. Throws std::exception if the file
// cannot be opened.
void open(const std::string& target, std::string_view level);
// Reopens the file after log rotation (USR1). Keeps the old one if that fails.
void reopen();
// Redirects stdout and stderr of this process. Log lines still go to the target of open(), even if
// that is stderr. Call at most once, after open(). Throws std::exception on failure.
enum class OutputMode {
  kToLog,    // to the log target, as they are; follows reopen()
  kDiscard,  // to /dev/null
};
void redirect(OutputMode mode);
// Writes one line with one write(2): "level=notice event=started pid=12 why=\"two words\"". Never
// throws.
void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});

inline void debug(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kDebug, e, f); }
inline void notice(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kNotice, e, f); }
inline void warning(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kWarning, e, f); }
inline void error(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kError, e, f); }

}  // namespace freshet::log
