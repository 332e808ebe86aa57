// Log file to which one or several processes append. Each write consists of whole lines, so that
// lines of several processes do not mix.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace freshet::observe {

class LineFile {
 public:
  enum class Buffering { kNone, kLines };  // kLines: up to 64 KiB are buffered until flush()

  // Opens nothing if `path` is empty. A failure to open is logged, here and at each reopen().
  LineFile(std::string path, Buffering buffering);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  // `line` has no line break. Does nothing if the file is not open.
  void append(std::string_view line);
  void flush();
  // Call after the file was rotated (USR1). Buffered lines go to the old file. If opening fails,
  // the old file stays in use.
  void reopen();

 private:
  int open_file() const;

  const std::string path_;
  const Buffering buffering_;
  int fd_ = -1;
  std::string buffered_;
};

}  // namespace freshet::observe
