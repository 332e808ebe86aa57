// Prints the tables of letter_tables.h as C++, from ICU's transliterators.
#include <unicode/normalizer2.h>
#include <unicode/translit.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

namespace {

void require(UErrorCode error, const char* what) {
  if (U_SUCCESS(error) != 0) return;
  std::fprintf(stderr, "%s: %s\n", what, u_errorName(error));
  std::exit(1);
}

std::unique_ptr<icu::Transliterator> transliterator(const char* id) {
  UErrorCode error = U_ZERO_ERROR;
  std::unique_ptr<icu::Transliterator> made(icu::Transliterator::createInstance(id, UTRANS_FORWARD, error));
  require(error, id);
  return made;
}

// Prints a mapping for each normalized letter of `script` whose transliteration is `accepted`.
void print_table(const char* name, UScriptCode script, const icu::Transliterator& rules,
                 const std::function<bool(const icu::UnicodeString&)>& accepted) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2& folding = *icu::Normalizer2::getNFKCCasefoldInstance(error);
  const icu::Normalizer2& decomposition = *icu::Normalizer2::getNFDInstance(error);
  require(error, "normalization");
  std::printf("const LetterMapping %s[] = {\n", name);
  std::size_t size = 0;
  for (UChar32 c = 0x80; c <= 0x3FFFF; ++c) {
    if (uscript_getScript(c, &error) != script || u_isalpha(c) == 0) continue;
    const icu::UnicodeString letter(c);
    if (!folding.isNormalized(letter, error) || !decomposition.isNormalized(letter, error)) continue;
    icu::UnicodeString to(letter);
    rules.transliterate(to);
    std::string utf8;
    to.toUTF8String(utf8);
    if (to == letter || utf8.size() > 7 || !accepted(to)) continue;
    std::printf("  {0x%X, \"%s\"},\n", static_cast<unsigned>(c), utf8.c_str());
    ++size;
  }
  require(error, name);
  std::printf("};\nconst std::size_t %sSize = %zu;\n", name, size);
}

}  // namespace

int main() {
  std::printf("#include \"core/text/letter_tables.h\"\n\nnamespace freshet::text {\n\n");
  print_table("kSimplified", USCRIPT_HAN, *transliterator("Traditional-Simplified"),
              [](const icu::UnicodeString& to) { return to.countChar32() == 1; });
  print_table("kAsciiLetters", USCRIPT_LATIN, *transliterator("Latin-ASCII"),
              [](const icu::UnicodeString& to) {
                for (std::int32_t i = 0; i < to.length(); ++i) {
                  if (to[i] < 'a' || to[i] > 'z') return false;
                }
                return !to.isEmpty();
              });
  std::printf("\n}  // namespace freshet::text\n");
  return 0;
}
