// A file that grows by lines: of one process, or of several that append to the same one. A line is
// never cut: what leaves in one write are whole lines.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace freshet::observe {

class LineFile {
 public:
  enum class Buffering { kNone, kLines };  // kLines: up to 64 KiB wait for flush()

  // Not opened when `path` is empty. A file that cannot be opened costs one line in the log, here
  // and at each reopen().
  LineFile(std::string path, Buffering buffering);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  // `line` without its end. Nothing when the file is not open.
  void append(std::string_view line);
  void flush();
  // After the file was moved away (USR1): what waits goes to the old one. Goes on with it when
  // there is no new one.
  void reopen();

 private:
  int open_file() const;

  const std::string path_;
  const Buffering buffering_;
  int fd_ = -1;
  std::string buffered_;
};

}  // namespace freshet::observe
