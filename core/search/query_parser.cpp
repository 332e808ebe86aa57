#include "core/search/query_parser.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"

namespace freshet::search {
namespace {

using text::Form;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<QueryClause> parse() {
    for (skip_spaces(); at_ < text_.size() && words_ < kMaxQueryWords; skip_spaces()) {
      const Presence presence = read_operator();
      const std::size_t close = closing_quote(at_);
      if (close != npos) {
        add(presence, true, text_.substr(at_ + 1, close - at_ - 1));
        at_ = close + 1;
      } else {
        const std::size_t end = end_of_word(at_);
        add(presence, false, text_.substr(at_, end - at_));
        at_ = end;
      }
    }
    const auto is_excluded = [](const QueryClause& each) { return each.presence == Presence::kExcluded; };
    if (std::all_of(clauses_.begin(), clauses_.end(), is_excluded)) {
      for (QueryClause& each : clauses_) each.presence = Presence::kOptional;
    }
    return std::move(clauses_);
  }

 private:
  static constexpr std::size_t npos = std::string_view::npos;

  // 0 at the end of the text.
  char32_t character_at(std::size_t at) const {
    return at < text_.size() ? utf8::decode(text_, at).value : char32_t{0};
  }
  char32_t character_before(std::size_t at) const {
    if (at == 0) return 0;
    std::size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text_[begin]) & 0xC0U) == 0x80) --begin;
    return character_at(begin);
  }
  std::size_t size_at(std::size_t at) const {
    return std::max<std::size_t>(utf8::decode(text_, at).size, 1);  // an ill-formed byte is skipped
  }
  bool is_space_at(std::size_t at) const {
    return at >= text_.size() || utf8::is_white_space(character_at(at));
  }
  // Also skips marks of direction and the like, so that an operator behind them is one.
  void skip_spaces() {
    while (at_ < text_.size() && (is_space_at(at_) || utf8::is_invisible(character_at(at_))))
      at_ += size_at(at_);
  }

  // Several operators in a row are text.
  Presence read_operator() {
    const auto is_operator = [this](std::size_t at) {
      return at < text_.size() && (text_[at] == '+' || text_[at] == '-');
    };
    if (!is_operator(at_) || is_operator(at_ + 1) || is_space_at(at_ + 1)) return Presence::kOptional;
    return text_[at_++] == '+' ? Presence::kRequired : Presence::kExcluded;
  }

  bool is_within_hebrew(std::size_t quote) const {
    return text::is_hebrew(character_before(quote)) && text::is_hebrew(character_at(quote + 1));
  }
  bool is_quote(std::size_t at) const { return text_[at] == '"' && !is_within_hebrew(at); }

  // Returns the position of the closing quotation mark if a phrase starts at `at`, otherwise npos.
  std::size_t closing_quote(std::size_t at) const {
    if (at >= text_.size() || !is_quote(at) || is_space_at(at + 1)) return npos;
    std::size_t close = at + 1;
    while (close < text_.size() && !is_quote(close)) ++close;
    return close < text_.size() ? close : npos;
  }
  // A word ends before white space and before a phrase.
  std::size_t end_of_word(std::size_t at) const {
    do {
      at += size_at(at);
    } while (!is_space_at(at) && closing_quote(at) == npos);
    return at;
  }

  void add(Presence presence, bool is_phrase, std::string_view text) {
    QueryClause clause{presence, is_phrase, {}};
    bool full = false;
    std::uint32_t last_run = 0;
    text::for_each_token(text, [&](const text::Token& token) {
      const bool is_new_run = clause.tokens.empty() || token.run != last_run;
      const bool is_word = token.form == Form::kWord || (token.form == Form::kPair && is_new_run) ||
                           (token.form == Form::kCharacter && is_new_run);
      full = full || (is_word && words_ == kMaxQueryWords);
      if (full) return;
      if (is_word) ++words_;
      last_run = token.run;
      clause.tokens.push_back({std::string(token.term), token.position, token.form, token.run});
    });
    if (!clause.tokens.empty()) clauses_.push_back(std::move(clause));
  }

  std::string_view text_;
  std::size_t at_ = 0, words_ = 0;
  std::vector<QueryClause> clauses_;
};

}  // namespace

std::vector<QueryClause> parse_query(std::string_view text) {
  return Parser(utf8::prefix(text, kMaxQueryBytes)).parse();
}

}  // namespace freshet::search
