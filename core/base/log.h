// Log lines: key=value on stderr (journald reads them), through spdlog. Control characters in
// values are escaped. Threads may write while one opens or reopens.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace freshet::log {

enum class Level { kDebug, kNotice, kWarning, kError };
using Field = std::pair<std::string_view, std::string>;

// `target` is "stderr" or a file's path; `level` one of debug, notice, warning, error. Called once,
// in every process. Throws std::exception when the file cannot be opened. Before it, lines go to
// stderr at "notice".
void open(const std::string& target, std::string_view level);
// Opens the file again after it was moved away (USR1). Goes on with the old one when that fails.
void reopen();
// Where stdout and stderr of this process lead from now on. Lines go on to where open() said, also
// when that is stderr. Call after open(), once. Throws std::exception when it cannot be done.
enum class OutputMode {
  kToLog,   // to where lines go, beside them, also after reopen()
  kDiscard,  // nowhere
};
void redirect(OutputMode mode);
// One line, in one write: "level=notice event=started pid=12 why=\"two words\"". Never throws.
void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});

inline void debug(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kDebug, e, f); }
inline void notice(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kNotice, e, f); }
inline void warning(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kWarning, e, f); }
inline void error(std::string_view e, std::initializer_list<Field> f = {}) { write(Level::kError, e, f); }

}  // namespace freshet::log
