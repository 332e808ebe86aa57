// State of the imports of a source, in a file of the tool: the ids of its items, so that those that
// are gone from it can be deleted, and the validators of its documents for conditional requests.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "scripts/ctl/http/fetch.h"

namespace freshet::ctl {

struct SourceState {
  struct DocumentState {
    Validators validators;
    std::vector<std::string> ids;       // of its entries
    std::vector<std::string> sitemaps;  // that it names
    bool operator==(const DocumentState&) const = default;
  };

  std::string source, target;                      // a state file belongs to one source and one service
  std::string rule;                                // options that the items depend on
  std::map<std::string, UnixSeconds> ids;          // imported items → publish time
  std::map<std::string, DocumentState> documents;  // by URL; only those that were read completely
  bool operator==(const SourceState&) const = default;
};

std::string to_json(const SourceState& state);
// nullopt if the text is damaged or has another format.
std::optional<SourceState> parse_source_state(std::string text);

// Path of the file for a source and a service, in `folder`.
std::string state_path(const std::string& folder, const std::string& source, const std::string& target);
// Empty if there is no usable file.
SourceState read_state(const std::string& path, const std::string& source, const std::string& target);
// Creates the folder. An interrupted write leaves the previous file. Errors: kUnavailable
// "state_file".
Result<void> write_state(const std::string& path, const SourceState& state);

// The items that other sources of the same service have, by their files next to `path`. A source
// that was not imported for 30 days has none. Errors: kUnavailable "state_file" if a file cannot be
// read.
Result<std::set<std::string>> ids_of_other_sources(const std::string& path, const std::string& target);

// Holds the folder of state files, so that another import neither reads nor writes them meanwhile.
class StateLock {
 public:
  // Creates the folder, and waits while another import holds it. Errors: kUnavailable "state_file";
  // kConflict "import_running" after `patience`.
  static Result<StateLock> take(const std::string& folder, milliseconds patience);
  StateLock(StateLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~StateLock();

 private:
  explicit StateLock(int fd) : fd_(fd) {}
  int fd_;
};

// Which items to delete: those of `imported` that are not in `present` and were published at
// `oldest` or later. Pure.
struct PruneDecision {
  std::vector<std::string> gone;
  std::size_t considered = 0;  // published at `oldest` or later
  bool is_too_much = false;    // more than a third of these
};
PruneDecision decide_prune(const std::map<std::string, UnixSeconds>& imported,
                           const std::map<std::string, UnixSeconds>& present, UnixSeconds oldest);

}  // namespace freshet::ctl
