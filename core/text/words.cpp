#include "core/text/words.h"

#include <fmt/format.h>
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>
#include <unicode/uversion.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/base/utf8.h"
#include "core/text/letter_tables.h"

namespace freshet::text {
namespace {

// Also incremented when the index stores other terms or values of an item.
constexpr int kPipelineVersion = 3;

// A run without spaces is split in pieces of this many characters: the dictionaries' time grows
// faster than the text.
constexpr std::size_t kMaxDictionaryRun = 1000;
constexpr std::size_t kFragmentLength = 3;
constexpr std::size_t kMaxSuffix = 2;  // of "c++"

constexpr char32_t kTatweel = 0x640;
constexpr char32_t kCombiningDotAbove = 0x307;
constexpr char32_t kThaiAa = 0xE32, kLaoAa = 0xEB2;
constexpr char32_t kRightQuote = 0x2019, kModifierApostrophe = 0x2BC, kOkina = 0x2BB;
constexpr char32_t kGeresh = 0x5F3, kGershayim = 0x5F4, kMiddleDot = 0xB7;
constexpr std::uint8_t kNuktaClass = 7;  // canonical combining class of nukta marks

enum class Class : std::uint8_t {
  kSeparator,
  kLetter,      // also digits and marks
  kUnspaced,    // Han, kana, Hangul, Yi
  kDictionary,  // Thai, Lao, Khmer, Burmese and scripts like them
  kEmoji,
};

UScriptCode script_of(char32_t c) {
  UErrorCode error = U_ZERO_ERROR;
  return uscript_getScript(static_cast<UChar32>(c), &error);
}

bool is_ascii_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
}

Class class_of(char32_t c) {
  if (c < 0x80) return is_ascii_letter(c) ? Class::kLetter : Class::kSeparator;
  const auto point = static_cast<UChar32>(c);
  if (u_hasBinaryProperty(point, UCHAR_EXTENDED_PICTOGRAPHIC) != 0 ||
      u_hasBinaryProperty(point, UCHAR_REGIONAL_INDICATOR) != 0)
    return Class::kEmoji;
  constexpr std::uint32_t kLetters = U_GC_L_MASK | U_GC_N_MASK | U_GC_M_MASK;
  if ((U_GET_GC_MASK(point) & kLetters) == 0) return Class::kSeparator;
  switch (script_of(c)) {
    case USCRIPT_HAN:
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
    case USCRIPT_HANGUL:
    case USCRIPT_BOPOMOFO:
      return Class::kUnspaced;
    case USCRIPT_THAI:
    case USCRIPT_LAO:
    case USCRIPT_KHMER:
    case USCRIPT_MYANMAR:
      return Class::kDictionary;
    case USCRIPT_COMMON:  // the mark that lengthens a vowel belongs to both kana
      return uscript_hasScript(point, USCRIPT_KATAKANA) != 0 ? Class::kUnspaced : Class::kLetter;
    default:
      break;
  }
  switch (u_getIntPropertyValue(point, UCHAR_LINE_BREAK)) {
    case U_LB_IDEOGRAPHIC:
      return Class::kUnspaced;
    case U_LB_COMPLEX_CONTEXT:
      return Class::kDictionary;
    default:
      return Class::kLetter;
  }
}

std::string_view find(std::span<const LetterMapping> table, char32_t c) {
  const auto entry = std::lower_bound(
      table.begin(), table.end(), c, [](const LetterMapping& each, char32_t key) { return each.from < key; });
  return entry != table.end() && entry->from == c ? entry->to : std::string_view();
}

// The next character of well-formed UTF-8.
char32_t next_character(std::string_view text, std::size_t& at) {
  UChar32 c = 0;
  U8_NEXT_UNSAFE(text.data(), at, c);
  return static_cast<char32_t>(c);
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// NFKC would join the letters of these signs to the word before them.
std::string replace_trademarks(std::string_view text) {
  std::string out(text);
  for (const std::string_view sign : {"\u2122", "\u2120"}) {
    for (std::size_t at = out.find(sign); at != out.npos; at = out.find(sign, at))
      out.replace(at, sign.size(), " ");
  }
  return out;
}

// Well-formed, whatever `text` is.
std::string normalized(std::string_view text) {
  std::string folded =
      text.find("\xE2\x84") == text.npos ? utf8::fold(text) : utf8::fold(replace_trademarks(text));
  if (is_ascii(folded)) return folded;
  std::string out;
  out.reserve(folded.size());
  for (std::size_t at = 0; at < folded.size();) {
    const auto [c, size] = utf8::decode(folded, at);
    const std::string_view same = std::string_view(folded).substr(at, size);
    at += std::max<std::size_t>(size, 1);
    if (size == 0) {
      out += ' ';
    } else if (c < 0x80) {
      out += same;
    } else if (c == kThaiAa && out.ends_with("\u0E4D")) {
      out.replace(out.size() - 3, 3, "\u0E33");  // ICU's dictionaries have composed vowels
    } else if (c == kLaoAa && out.ends_with("\u0ECD")) {
      out.replace(out.size() - 3, 3, "\u0EB3");
    } else if (c == kCombiningDotAbove && out.ends_with('i')) {
      // İ folds to i and a dot, which an i has anyway.
    } else if (const int digit = u_charDigitValue(static_cast<UChar32>(c)); digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else if (c == kRightQuote || c == kModifierApostrophe || c == kOkina || c == kGeresh) {
      out += '\'';
    } else if (c == kGershayim) {
      out += '"';
    } else if (c >= 0x2E80) {
      const std::string_view simplified = find({kSimplified, kSimplifiedSize}, c);
      out += simplified.empty() ? same : simplified;
    } else {
      out += same;
    }
  }
  return out;
}

const icu::Normalizer2& decomposition() {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const loaded = icu::Normalizer2::getNFDInstance(error);
  if (U_FAILURE(error) != 0) throw std::runtime_error(std::string("ICU is unusable: ") + u_errorName(error));
  return *loaded;
}

// Marks that writers leave out. Vowel signs of Indic scripts are marks as well, but change the
// word.
bool is_accent(char32_t c) {
  if (c == kTatweel) return true;
  const auto point = static_cast<UChar32>(c);
  if (u_charType(point) != U_NON_SPACING_MARK) return false;
  if (u_getCombiningClass(point) == kNuktaClass) return true;
  const UScriptCode script = script_of(c);
  return script == USCRIPT_INHERITED || script == USCRIPT_HEBREW || script == USCRIPT_ARABIC ||
         script == USCRIPT_SYRIAC;
}

// Splits runs by a dictionary. One per thread, made when such a run is first met.
class DictionaryBreaker {
 public:
  // Byte offsets of the ends of the words of `run`.
  std::vector<std::size_t> word_ends(std::string_view run) {
    if (!iterator_) load();
    const auto units = icu::UnicodeString::fromUTF8({run.data(), static_cast<std::int32_t>(run.size())});
    iterator_->setText(units);
    std::vector<std::size_t> ends;
    std::size_t at = 0;
    std::int32_t unit = 0;
    for (std::int32_t end = iterator_->first(); end != icu::BreakIterator::DONE; end = iterator_->next()) {
      while (unit < end) unit += next_character(run, at) > 0xFFFF ? 2 : 1;
      if (at > 0) ends.push_back(at);
    }
    return ends;
  }

 private:
  void load() {
    UErrorCode error = U_ZERO_ERROR;
    iterator_.reset(icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), error));
    if (U_FAILURE(error) != 0)
      throw std::runtime_error(std::string("ICU is unusable: ") + u_errorName(error));
  }
  std::unique_ptr<icu::BreakIterator> iterator_;
};

// Walks over normalized text.
class Tokenizer {
 public:
  Tokenizer(std::string_view text, const std::function<void(const Token&)>& emit)
      : text_(text), emit_(emit) {}

  std::uint32_t run() {
    while (at_ < text_.size()) {
      switch (peek().kind) {
        case Class::kSeparator:
          at_ = peek().end;
          break;
        case Class::kLetter:
          add_compound();
          break;
        case Class::kUnspaced:
          add_unspaced_run();
          break;
        case Class::kDictionary:
          add_dictionary_run();
          break;
        case Class::kEmoji:
          add_emoji();
          break;
      }
    }
    return position_;
  }

 private:
  struct Next {
    char32_t c = 0;
    Class kind = Class::kSeparator;
    std::size_t end = 0;
  };
  // The character at `at`, or a separator at the end of the text.
  Next peek_at(std::size_t at) const {
    if (at >= text_.size()) return {0, Class::kSeparator, at};
    Next next;
    next.end = at;
    next.c = next_character(text_, next.end);
    next.kind = class_of(next.c);
    return next;
  }
  Next peek() const { return peek_at(at_); }

  struct Span {
    std::size_t begin = 0, end = 0, length = 0;  // length: in characters
  };
  std::string_view view(const Span& span) const { return text_.substr(span.begin, span.end - span.begin); }
  static bool is_term(const Span& span) {
    return span.length <= kMaxWordLength && span.end - span.begin <= kMaxTermBytes;
  }
  void emit(std::string_view term, std::uint32_t position, Form form) { emit_({term, position, form, run_}); }

  Span read_letters() {
    Span word{at_, at_, 0};
    for (Next next = peek(); next.kind == Class::kLetter; next = peek()) {
      at_ = word.end = next.end;
      ++word.length;
    }
    return word;
  }

  // Returns whether the character at at_ joins the word before it to the next one.
  bool joins(const Span& before) const {
    const Next joiner = peek();
    const Next after = peek_at(joiner.end);
    if (after.kind != Class::kLetter) return false;
    const char last = text_[before.end - 1];
    const bool digits = last >= '0' && last <= '9' && after.c >= '0' && after.c <= '9';
    switch (joiner.c) {
      case '\'':
      case '&':
      case kMiddleDot:
        return true;
      case '"':
        return is_hebrew(after.c);
      case ',':
        return digits;
      case '.':  // of numbers and abbreviations
        return digits || (before.length == 1 && peek_at(after.end).kind != Class::kLetter);
      default:
        return false;
    }
  }

  // Words joined to one, as "l'été", or a single word.
  void add_compound() {
    Span whole{at_, at_, 0};
    const std::uint32_t position = position_;
    std::size_t parts = 0;
    for (;;) {
      const Span part = read_letters();
      if (is_term(part)) emit(view(part), position_, Form::kWord);
      ++position_;
      ++parts;
      whole.end = part.end;
      whole.length += part.length;
      if (!joins(part)) break;
      at_ = peek().end;
      ++whole.length;
    }
    const std::size_t suffix = suffix_length();
    at_ = whole.end += suffix;
    if ((parts > 1 || suffix > 0) && is_term(whole)) {
      std::string compound(view(whole));
      const auto dots = static_cast<std::size_t>(std::count(compound.begin(), compound.end(), '.'));
      const bool is_number = compound[0] >= '0' && compound[0] <= '9';
      // "U.S.A." is found as "USA".
      if (!is_number && dots == parts - 1 && whole.length == 2 * parts - 1) std::erase(compound, '.');
      emit(compound, position, Form::kCompound);
    }
    ++run_;
  }

  // The length of what follows the word in "c++" and "c#".
  std::size_t suffix_length() const {
    std::size_t length = 0;
    while (length < kMaxSuffix && at_ + length < text_.size() &&
           (text_[at_ + length] == '+' || text_[at_ + length] == '#'))
      ++length;
    return peek_at(at_ + length).kind == Class::kSeparator ? length : 0;
  }

  void add_unspaced_run() {
    Span before;
    std::size_t length = 0;
    for (Next next = peek(); next.kind == Class::kUnspaced; next = peek(), ++length) {
      const Span character{at_, next.end, 1};
      if (length > 0) emit(text_.substr(before.begin, next.end - before.begin), position_ - 1, Form::kPair);
      at_ = next.end;
      const bool alone = length == 0 && peek().kind != Class::kUnspaced;
      emit(view(character), position_++, alone ? Form::kWord : Form::kCharacter);
      before = character;
    }
    ++run_;
  }

  void add_dictionary_run() {
    thread_local DictionaryBreaker breaker;
    Span run{at_, at_, 0};
    std::vector<std::size_t> characters;  // starts of user-perceived characters
    for (Next next = peek(); next.kind == Class::kDictionary && run.length < kMaxDictionaryRun;
         next = peek()) {
      if (run.length == 0 || u_hasBinaryProperty(static_cast<UChar32>(next.c), UCHAR_GRAPHEME_EXTEND) == 0)
        characters.push_back(at_);
      at_ = run.end = next.end;
      ++run.length;
    }
    std::size_t begin = run.begin;
    for (const std::size_t end : breaker.word_ends(view(run))) {
      const Span word{begin, run.begin + end, utf8::length(text_.substr(begin, run.begin + end - begin))};
      if (is_term(word)) emit(view(word), position_, Form::kWord);
      ++position_;
      begin = word.end;
    }
    characters.push_back(run.end);
    for (std::size_t i = 0; i + kFragmentLength < characters.size(); ++i) {
      const Span fragment{characters[i], characters[i + kFragmentLength], kFragmentLength};
      if (is_term(fragment)) emit(view(fragment), 0, Form::kFragment);
    }
    ++run_;
  }

  // A flag is a pair of characters. Colors of skin are left out.
  void add_emoji() {
    const Next first = peek();
    const std::size_t begin = at_;
    at_ = first.end;
    const auto is_half_flag = [](const Next& next) {
      return u_hasBinaryProperty(static_cast<UChar32>(next.c), UCHAR_REGIONAL_INDICATOR) != 0;
    };
    if (is_half_flag(first) && is_half_flag(peek())) at_ = peek().end;
    const bool is_color = u_hasBinaryProperty(static_cast<UChar32>(first.c), UCHAR_EMOJI_MODIFIER) != 0;
    if (!is_color) emit(text_.substr(begin, at_ - begin), position_++, Form::kWord);
    ++run_;
  }

  std::string_view text_;
  const std::function<void(const Token&)>& emit_;
  std::size_t at_ = 0;
  std::uint32_t position_ = 0, run_ = 0;
};

}  // namespace

std::string pipeline_version() {
  UVersionInfo version{};
  u_getVersion(version);
  std::array<char, U_MAX_VERSION_STRING_LENGTH> name{};
  u_versionToString(version, name.data());
  return fmt::format("{} icu {}", kPipelineVersion, name.data());
}

std::uint32_t for_each_token(std::string_view text, const std::function<void(const Token&)>& emit) {
  const std::string normal = normalized(text);
  return Tokenizer(normal, emit).run();
}

std::string without_accents(std::string_view word) {
  if (is_ascii(word)) return std::string(word);
  std::string decomposed;
  icu::StringByteSink<std::string> sink(&decomposed);
  UErrorCode error = U_ZERO_ERROR;
  decomposition().normalizeUTF8(0, {word.data(), static_cast<std::int32_t>(word.size())}, sink, nullptr,
                                error);
  if (U_FAILURE(error) != 0) throw std::bad_alloc();
  std::string out;
  for (std::size_t at = 0; at < decomposed.size();) {
    const std::size_t from = at;
    const char32_t c = next_character(decomposed, at);
    if (is_accent(c)) continue;
    const std::string_view ascii =
        c < 0x80 ? std::string_view() : find({kAsciiLetters, kAsciiLettersSize}, c);
    out += ascii.empty() ? std::string_view(decomposed).substr(from, at - from) : ascii;
  }
  // Decomposed only: Hangul, or vowel signs.
  return out.empty() || out == decomposed ? std::string(word) : utf8::to_nfc(out);
}

bool can_have_stem(std::string_view word) {
  std::size_t at = 0;
  const char32_t first = next_character(word, at);
  return class_of(first) == Class::kLetter && u_isdigit(static_cast<UChar32>(first)) == 0;
}

bool is_hebrew(char32_t c) {
  return script_of(c) == USCRIPT_HEBREW && u_isalpha(static_cast<UChar32>(c)) != 0;
}

}  // namespace freshet::text
