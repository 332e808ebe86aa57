#include "core/search/search_schema.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <cstdint>

#include "core/base/utf8.h"
#include "core/search/readable_text.h"
#include "core/text/words.h"

namespace freshet::search {
namespace {

constexpr std::size_t kMaxTermBytes = 245;  // Xapian's limit
constexpr std::size_t kTimeBytes = 8;
constexpr char kStemmerSeparator[] = " stemmer ";
constexpr std::uint64_t kSignBit = 1ULL << 63;  // flipped, so that negative times sort first
// Together with the time this fits into a string without an allocation.
constexpr std::size_t kFingerprintBytes = 7;

std::string big_endian(std::uint64_t bits, std::size_t bytes) {
  std::string out(bytes, '\0');
  for (std::size_t i = bytes; i-- > 0; bits >>= 8) out[i] = static_cast<char>(bits & 0xff);
  return out;
}

std::uint64_t parse_big_endian(std::string_view bytes) {
  std::uint64_t bits = 0;
  for (const char each : bytes) bits = bits << 8 | static_cast<unsigned char>(each);
  return bits;
}

std::string time_key(UnixSeconds at) {
  return big_endian(static_cast<std::uint64_t>(at.time_since_epoch().count()) ^ kSignBit, kTimeBytes);
}

UnixSeconds parse_time_key(std::string_view key) {
  return UnixSeconds{
      seconds{static_cast<std::int64_t>(parse_big_endian(key.substr(0, kTimeBytes)) ^ kSignBit)}};
}

std::string published_value(UnixSeconds at) {
  return Xapian::sortable_serialise(static_cast<double>(at.time_since_epoch().count()));
}

// The term of a name. A long one is cut and ends with a hash of the whole, after a separator that
// no name contains.
std::string exact_term(char prefix, std::string_view name) {
  constexpr std::size_t kHashBytes = 32;
  std::string term(1, prefix);
  if (1 + name.size() <= kMaxTermBytes) return term.append(name);
  const XXH128_hash_t hash = XXH3_128bits(name.data(), name.size());
  return fmt::format("{}{}{}{:016x}{:016x}", prefix, name.substr(0, kMaxTermBytes - kHashBytes - 2),
                     kIdSeparator, hash.high64, hash.low64);
}

void add_exact(Xapian::Document& document, char prefix, std::string_view name) {
  if (!name.empty()) document.add_term(exact_term(prefix, name));
}

using text::Form;

// Adds the words of the fields of one document.
class WordAdder {
 public:
  WordAdder(Xapian::Document& document, const Xapian::Stem& stemmer)
      : document_(document), stemmer_(stemmer) {}

  void add_field(std::string_view text, Xapian::termcount weight) {
    const std::uint32_t positions = text::for_each_token(text, [&](const text::Token& token) {
      if (token.form == Form::kFragment) {
        document_.add_term(prefixed(kFragmentPrefix, token.term), weight);
        return;
      }
      term_.assign(token.term);
      document_.add_posting(term_, next_position_ + token.position, weight);
      if (token.form != Form::kWord && token.form != Form::kCompound) return;
      if (const std::string stem = stem_term(stemmer_, term_); stem != term_)
        document_.add_term(stem, weight);
      const std::string unaccented = text::without_accents(term_);
      if (unaccented != term_) document_.add_term(prefixed(kUnaccentedPrefix, unaccented), weight);
    });
    next_position_ += positions + kFieldGap;
  }
  void add_title_words(std::string_view title) {
    text::for_each_token(title, [&](const text::Token& token) {
      if (token.form == Form::kWord || token.form == Form::kPair)
        document_.add_term(prefixed(kTitlePrefix, token.term));
    });
  }

 private:
  static constexpr std::uint32_t kFieldGap = 100;  // keeps phrases from spanning fields

  const std::string& prefixed(char prefix, std::string_view term) {
    buffer_.assign(1, prefix).append(term);
    return buffer_;
  }

  Xapian::Document& document_;
  const Xapian::Stem& stemmer_;
  std::uint32_t next_position_ = 1;
  std::string term_, buffer_;
};

}  // namespace

Result<Xapian::Stem> make_stemmer(const std::string& name) try {
  return Xapian::Stem(name);
} catch (const Xapian::Error& error) {
  return fail(ErrorCode::kInternal, "bad_stemmer", {}, error.get_msg());
}

std::string stem_term(const Xapian::Stem& stemmer, const std::string& word) {
  return stemmer.is_none() || !text::can_have_stem(word) ? word : kStemPrefix + stemmer(word);
}

std::string terms_version(const std::string& stemmer) {
  return stemmer == "none" ? text::pipeline_version()
                           : text::pipeline_version() + kStemmerSeparator + stemmer;
}

bool has_stems_of(std::string_view terms_version, const std::string& stemmer) {
  return terms_version.ends_with(kStemmerSeparator + stemmer);
}

std::string mixed_version(std::string_view a, std::string_view b) {
  const auto stemmer_of = [](std::string_view version) {
    const auto at = version.find(kStemmerSeparator);
    return at == version.npos ? std::string_view() : version.substr(at);
  };
  return "mixed" + std::string(stemmer_of(a) == stemmer_of(b) ? stemmer_of(a) : std::string_view());
}

std::string id_term(const ItemId& item) { return exact_term('Q', item.view()); }

Xapian::Document make_document(const items::Item& item, const Xapian::Stem& stemmer,
                               const FieldWeights& weights) {
  Xapian::Document document;
  WordAdder words(document, stemmer);
  words.add_field(item.title, weights.title);
  words.add_title_words(item.title);
  for (const TagName& tag : item.tags) words.add_field(tag.view(), weights.tag);
  words.add_field(item.author, weights.author);
  std::string buffer;
  words.add_field(readable_text(item.text, item.text_format, buffer), weights.text);
  document.add_boolean_term(id_term(item.id));
  for (const TagName& tag : item.tags) add_exact(document, kTagPrefix, utf8::fold(tag.view()));
  add_exact(document, 'A', author_key(item.author_id, item.author, buffer));
  document.add_value(kPublishedSlot, published_value(item.published_at));
  document.add_value(kOrderSlot, order_key(item.published_at, item.id));
  document.set_data(item.id.str());
  const std::string all = document.serialise();
  document.add_value(kItemStateSlot, time_key(item.published_at) +
                                         big_endian(XXH3_64bits(all.data(), all.size()), kFingerprintBytes));
  return document;
}

std::string order_key(UnixSeconds published, const ItemId& item) { return time_key(published) + item.str(); }

bool is_order_key(std::string_view key) { return key.size() > kTimeBytes; }

OrderKey parse_order_key(std::string_view key) { return {parse_time_key(key), key.substr(kTimeBytes)}; }

ItemState parse_item_state(std::string_view value) {
  if (value.size() != kTimeBytes + kFingerprintBytes) return {};
  return {parse_time_key(value), parse_big_endian(value.substr(kTimeBytes))};
}

Xapian::Query published_within(UnixSeconds from, UnixSeconds before) {
  return {Xapian::Query::OP_VALUE_RANGE, kPublishedSlot, published_value(from),
          published_value(before - seconds{1})};
}

}  // namespace freshet::search
